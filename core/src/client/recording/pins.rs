//! Pins in a recording.

use super::bytes::{Bytes, Unread, put_bytes, put_number, put_socket};
use crate::{
    description::TopologyId,
    operation::{Pin, PinHolder, PinId, PinUse, PinnedFor},
};
use bson::oid::ObjectId;

/// The holders of pins, by their numbers in a recording; 0 is none.
const HOLDERS: [PinnedFor; 3] = [
    PinnedFor::Operation,
    PinnedFor::Cursor,
    PinnedFor::Transaction,
];

/// The number of a pin that a command borrows.
const BORROWED: u8 = 4;

/// Writes a pin: the number of its holder and its id, or 0 for none.
pub(super) fn put_holder(out: &mut Vec<u8>, holder: Option<PinHolder>) {
    let Some(PinHolder { id, pinned_for }) = holder else {
        out.push(0);
        return;
    };
    let place = HOLDERS.iter().position(|one| *one == pinned_for);
    out.push(place.unwrap_or_default() as u8 + 1);
    put_pin_id(out, id);
}

/// Writes the use of a pin by a command.
pub(super) fn put_pin_use(out: &mut Vec<u8>, pin: Option<&PinUse>) {
    match pin {
        None => out.push(0),
        Some(PinUse::Last(pin)) => put_holder(out, Some(pin.0)),
        Some(PinUse::Borrowed(id)) => {
            out.push(BORROWED);
            put_pin_id(out, *id);
        }
    }
}

fn put_pin_id(out: &mut Vec<u8>, id: PinId) {
    put_bytes(out, &id.client.0.bytes());
    put_socket(out, id.socket);
    put_number(out, id.request.cast_unsigned().into());
    put_number(out, id.nth as u64);
}

/// Writes the pins that an exchange has made.
pub(super) fn put_holders(out: &mut Vec<u8>, holders: &[PinHolder]) {
    for holder in holders {
        put_holder(out, Some(*holder));
    }
    put_holder(out, None);
}

/// Reads a pin that [`put_holder`] has written.
pub(super) fn holder(input: &mut Bytes<'_>) -> Result<Option<PinHolder>, Unread> {
    let what = "a pin";
    match pin_use(input)? {
        None => Ok(None),
        Some(PinUse::Last(pin)) => Ok(Some(pin.0)),
        Some(PinUse::Borrowed(_)) => Err(Unread::Damaged(what)),
    }
}

/// Reads the pins that [`put_holders`] has written.
pub(super) fn holders(input: &mut Bytes<'_>) -> Result<Vec<PinHolder>, Unread> {
    let mut all = Vec::new();
    while let Some(holder) = holder(input)? {
        all.push(holder);
    }
    Ok(all)
}

/// Reads the use of a pin that [`put_pin_use`] has written.
pub(super) fn pin_use(input: &mut Bytes<'_>) -> Result<Option<PinUse>, Unread> {
    let what = "a pin";
    let number = input.byte(what)?;
    if number == 0 {
        return Ok(None);
    }
    if number == BORROWED {
        return Ok(Some(PinUse::Borrowed(pin_id(input)?)));
    }
    let pinned_for = HOLDERS.get(usize::from(number) - 1);
    let pinned_for = *pinned_for.ok_or(Unread::Damaged(what))?;
    let id = pin_id(input)?;
    Ok(Some(PinUse::Last(Pin(PinHolder { id, pinned_for }))))
}

fn pin_id(input: &mut Bytes<'_>) -> Result<PinId, Unread> {
    let what = "the id of a pin";
    let client = <[u8; 12]>::try_from(input.bytes(what)?);
    let client = client.map_err(|_| Unread::Damaged(what))?;
    let socket = input.socket()?;
    let request = u32::try_from(input.number(what)?).map_err(|_| Unread::Damaged(what))?;
    let nth = usize::try_from(input.number(what)?).map_err(|_| Unread::Damaged(what))?;
    Ok(PinId {
        client: TopologyId(ObjectId::from_bytes(client)),
        socket,
        request: request.cast_signed(),
        nth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::SocketId;

    fn id() -> PinId {
        PinId {
            client: TopologyId(ObjectId::from_bytes([3; 12])),
            socket: SocketId::new(400, 1),
            request: i32::MAX,
            nth: 2,
        }
    }

    #[test]
    fn the_use_of_a_pin_is_read_as_it_was_written() {
        let last = |pinned_for| {
            PinUse::Last(Pin(PinHolder {
                id: id(),
                pinned_for,
            }))
        };
        let mut uses: Vec<Option<PinUse>> = HOLDERS.map(|one| Some(last(one))).into();
        uses.extend([Some(PinUse::Borrowed(id())), None]);
        for pin in uses {
            let mut bytes = Vec::new();
            put_pin_use(&mut bytes, pin.as_ref());
            let mut rest = Bytes(&bytes);
            assert_eq!(pin_use(&mut rest).expect("it is whole"), pin);
            assert!(rest.0.is_empty());
            for length in 0..bytes.len() {
                let cut = pin_use(&mut Bytes(&bytes[..length]));
                assert!(matches!(cut, Err(Unread::Damaged(_))), "{pin:?} {length}");
            }
        }
    }

    #[test]
    fn pins_of_an_exchange_are_kept_in_their_order_and_have_a_known_holder() {
        let all = HOLDERS.map(|pinned_for| PinHolder {
            id: id(),
            pinned_for,
        });
        let mut bytes = Vec::new();
        put_holders(&mut bytes, &all);
        assert_eq!(holders(&mut Bytes(&bytes)).expect("they are whole"), all);
        for number in [BORROWED, 5] {
            bytes[0] = number;
            assert!(holders(&mut Bytes(&bytes)).is_err());
        }
    }
}
