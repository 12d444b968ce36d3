//! Resume tokens: the position of an event among all events.

use bson::{Bson, Document, Timestamp, doc};

use super::super::error::StoreError;
use super::Answer;

/// The first byte of each token.
const START: u8 = 0x82;

/// The last byte of each token.
const END: u8 = 0x04;

/// The byte that marks a high-water mark.
const HIGH_WATER: u8 = 0x00;

/// The byte that marks the token of an event.
const EVENT: u8 = 0x80;

/// A position in the order of all events. The text of a token has the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    time: Timestamp,
    /// The event, or `None` for the position before all events of the time: a high-water mark.
    place: Option<Place>,
}

/// An event among those of one cluster time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The position of the change among those of the oplog entry.
    change: u32,
    /// True for the event that ends the stream after the event of the change.
    invalidates: bool,
    /// The number of a fragment of the event, from 0; [`u32::MAX`] for a whole event.
    fragment: u32,
}

impl Token {
    /// Returns the position before all events of a time.
    pub(crate) const fn high_water(time: Timestamp) -> Self {
        Self { time, place: None }
    }

    /// Returns the position of the event of a change.
    pub(super) fn event(time: Timestamp, change: usize, invalidates: bool) -> Self {
        let place = Place {
            change: u32::try_from(change).unwrap_or(u32::MAX),
            invalidates,
            fragment: u32::MAX,
        };
        Self {
            time,
            place: Some(place),
        }
    }

    /// Returns the position of a fragment of this event.
    pub(super) fn fragment(self, number: usize) -> Self {
        let fragment = u32::try_from(number).unwrap_or(u32::MAX - 1);
        let place = self.place.map(|place| Place { fragment, ..place });
        Self { place, ..self }
    }

    pub(crate) const fn time(self) -> Timestamp {
        self.time
    }

    /// Returns the position of the change of the event; `None` for a high-water mark.
    pub(super) fn change(self) -> Option<usize> {
        let place = self.place?;
        usize::try_from(place.change).ok()
    }

    /// True for the event that ends a stream.
    pub(crate) fn invalidates(self) -> bool {
        self.place.is_some_and(|place| place.invalidates)
    }

    /// True for a fragment of an event.
    pub(crate) fn is_fragment(self) -> bool {
        self.place.is_some_and(|place| place.fragment != u32::MAX)
    }

    /// Returns the token as the document that clients see.
    pub(crate) fn to_document(self) -> Document {
        let mut bytes = vec![START];
        bytes.extend(self.time.time.to_be_bytes());
        bytes.extend(self.time.increment.to_be_bytes());
        match self.place {
            None => bytes.push(HIGH_WATER),
            Some(place) => {
                bytes.push(EVENT);
                bytes.extend(place.change.to_be_bytes());
                bytes.push(place.invalidates.into());
                bytes.extend(place.fragment.to_be_bytes());
            }
        }
        bytes.push(END);
        let digits = bytes.iter().map(|byte| format!("{byte:02X}"));
        doc! { "_data": digits.collect::<String>() }
    }

    /// Parses the document of a client.
    pub(crate) fn parse(document: &Document) -> Answer<Self> {
        let data = match document.get("_data") {
            Some(Bson::String(data)) => data,
            other => {
                let shown =
                    other.map_or_else(|| "missing".to_owned(), super::super::order::display);
                let text = format!(
                    "Bad resume token: _data of missing or of wrong type. Expected a string, got \
                     {shown}"
                );
                return Err(StoreError::new(40647, text));
            }
        };
        let bytes = decoded(data).and_then(|bytes| Self::from_bytes(&bytes));
        bytes.ok_or_else(|| {
            let text = format!("Invalid resume token: {}", &super::super::display(document));
            StoreError::new(260, text)
        })
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (time, rest) = bytes.strip_prefix(&[START])?.split_first_chunk::<4>()?;
        let (increment, rest) = rest.split_first_chunk::<4>()?;
        let time = Timestamp {
            time: u32::from_be_bytes(*time),
            increment: u32::from_be_bytes(*increment),
        };
        let rest = match rest.strip_suffix(&[END])? {
            [HIGH_WATER] => return Some(Self::high_water(time)),
            rest => rest.strip_prefix(&[EVENT])?,
        };
        let (change, rest) = rest.split_first_chunk::<4>()?;
        let (invalidates, fragment) = rest.split_first()?;
        let place = Place {
            change: u32::from_be_bytes(*change),
            invalidates: match invalidates {
                0 => false,
                1 => true,
                _ => return None,
            },
            fragment: u32::from_be_bytes(fragment.try_into().ok()?),
        };
        Some(Self {
            time,
            place: Some(place),
        })
    }
}

/// Returns the bytes of a text of hexadecimal digits.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().map(|digit| char::from(digit).to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let bytes = pairs
        .iter()
        .map(|[high, low]| u8::try_from(high << 4 | low).ok());
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timestamp = Timestamp {
        time: 7,
        increment: 300,
    };

    #[test]
    fn the_text_of_tokens_has_the_order_of_the_tokens() {
        let later = Timestamp {
            increment: 301,
            ..TIME
        };
        let event = Token::event(TIME, 2, false);
        let ordered = [
            Token::high_water(TIME),
            Token::event(TIME, 1, false),
            event.fragment(0),
            event.fragment(1),
            event,
            Token::event(TIME, 2, true),
            Token::event(TIME, 300, false),
            Token::high_water(later),
        ];
        assert!(ordered.is_sorted());
        let texts = ordered.map(|token| token.to_document());
        let texts = texts
            .each_ref()
            .map(|text| text.get_str("_data").expect("a text"));
        assert!(texts.is_sorted(), "{texts:?}");
        for token in ordered {
            assert_eq!(Token::parse(&token.to_document()), Ok(token));
        }
    }

    #[test]
    fn a_token_that_this_server_did_not_make_is_refused() {
        let code = |document| Token::parse(&document).expect_err("refused").code;
        assert_eq!(code(doc! {}), 40647);
        assert_eq!(code(doc! { "_data": 1 }), 40647);
        let texts = ["", "8", "82", "zz", "8200000001000000018004", "82ü"];
        for text in texts {
            assert_eq!(code(doc! { "_data": text }), 260, "{text}");
        }
    }
}
