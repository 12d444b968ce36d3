//! The work that a pattern can take, computed from its text.
//!
//! The engine of linear time reads each byte once if its automaton fits its cache, and otherwise
//! takes time in proportion to the positions of the pattern. The engine with look-around counts
//! only failures, so the work between two failures has to be bounded here.

/// The parts of a step in which work is counted.
pub(super) const UNITS_PER_STEP: u64 = 64;

/// The units for one byte, for each position of a pattern whose automaton does not fit its cache.
const UNITS_OF_POSITION: u64 = 16;

/// The number of positions for which a byte takes one more unit for each position, because large
/// patterns do not fit the caches of a processor.
const POSITIONS_OF_UNIT: u64 = 128;

/// The units for one byte of a part for an automaton in the engine with look-around, compared with
/// those on the engine of linear time.
const UNITS_OF_PART: u64 = 4;

/// The units for one instruction of the engine with look-around.
const UNITS_OF_INSTRUCTION: u64 = 32;

/// The units for each pair of groups: the bounds of a group are searched among those of the others.
const UNITS_OF_BOUND: u64 = 8;

/// The memory that one state of an automaton takes, in bytes.
const BYTES_OF_STATE: u64 = 128;

/// The most states that are computed for an automaton, as a power of two.
const MAX_CHOICES: u64 = 40;

/// The sizes of a part of a pattern. All sums saturate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// The elements, with each repetition written out.
    pub(super) positions: u64,
    /// The elements that can fit the same character as others. Each can double the states of an
    /// automaton.
    pub(super) choices: u64,
    /// The characters and classes, with each repetition written once.
    pub(super) symbols: u64,
    /// The elements of the longest pass, or `u64::MAX` if it has no end.
    width: u64,
    /// The elements of a pass in which each repetition is as short as it can be.
    least: u64,
    /// The elements, with each repetition written once.
    length: u64,
    /// The product of the bounds of nested repetitions of parts that can be empty.
    pub(super) empties: u64,
    /// True if the part can match the empty text.
    is_empty: bool,
}

impl Size {
    pub(super) const EMPTY: Self = Self {
        positions: 0,
        choices: 0,
        symbols: 0,
        width: 0,
        least: 0,
        length: 0,
        empties: 1,
        is_empty: true,
    };

    /// The size of one character.
    pub(super) const CHARACTER: Self = Self {
        positions: 1,
        choices: 0,
        symbols: 1,
        width: 1,
        least: 1,
        length: 1,
        empties: 1,
        is_empty: false,
    };

    /// The size of a class of characters.
    pub(super) const CLASS: Self = Self {
        choices: 1,
        ..Self::CHARACTER
    };

    /// The size of a property of characters, which has very many ranges.
    pub(super) const PROPERTY: Self = Self {
        positions: 4,
        choices: 2,
        ..Self::CHARACTER
    };

    /// The size of an anchor or of a reference, which can be empty.
    pub(super) const ANCHOR: Self = Self {
        symbols: 0,
        is_empty: true,
        ..Self::CHARACTER
    };

    /// Returns the size of this part and of the one after it.
    pub(super) fn then(self, other: Self) -> Self {
        Self {
            width: self.width.saturating_add(other.width),
            least: self.least.saturating_add(other.least),
            is_empty: self.is_empty && other.is_empty,
            ..self.beside(other)
        }
    }

    /// Returns the size of two alternatives.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            width: self.width.max(other.width),
            least: self.least.max(other.least),
            is_empty: self.is_empty || other.is_empty,
            ..self.beside(other)
        }
    }

    /// True if the longest passes have equally many elements.
    pub(super) const fn is_as_long_as(self, other: Self) -> bool {
        self.width == other.width
    }

    /// Returns the size of a look-around around this part.
    pub(super) const fn of_look_around(self) -> Self {
        Self {
            positions: self.positions,
            empties: self.empties,
            ..Self::ANCHOR
        }
    }

    fn beside(self, other: Self) -> Self {
        Self {
            positions: self.positions.saturating_add(other.positions),
            choices: self.choices.saturating_add(other.choices),
            symbols: self.symbols.saturating_add(other.symbols),
            length: self.length.saturating_add(other.length),
            empties: self.empties.max(other.empties),
            ..self
        }
    }

    /// Returns the size with the choice between so many alternatives.
    pub(super) fn with_alternatives(self, count: u64) -> Self {
        let choices = u64::from(count.next_power_of_two().trailing_zeros());
        Self {
            choices: self.choices.saturating_add(choices),
            ..self
        }
    }

    /// Returns the size of a repetition. It has no end if `most` is `None`.
    pub(super) fn repeated(self, least: u64, most: Option<u64>) -> Self {
        if most == Some(0) {
            return Self::EMPTY;
        }
        let times = most.unwrap_or_else(|| least.max(1));
        let empties = if self.is_empty { times } else { 1 };
        Self {
            positions: self.positions.max(1).saturating_mul(times),
            choices: self.choices.max(1).saturating_mul(times),
            symbols: self.symbols,
            width: most.map_or(u64::MAX, |most| self.width.max(1).saturating_mul(most)),
            least: self.least.max(1).saturating_mul(least.max(1)),
            length: self.length + 1,
            empties: self.empties.saturating_mul(empties),
            is_empty: self.is_empty || least == 0,
        }
    }

    /// Returns the most units for one byte of a text, with an automaton whose cache has a size.
    pub(super) fn units_of_byte(&self, cache_bytes: u64) -> u64 {
        // Repetitions of one symbol are told apart by their lengths only.
        let choices = if self.symbols <= 1 {
            0
        } else {
            self.choices.min(MAX_CHOICES)
        };
        let states = (self.positions.min(1 << 20) + 2) << choices;
        match states.saturating_mul(BYTES_OF_STATE) <= cache_bytes {
            true => 1,
            false => self.slow_units_of_byte(),
        }
    }

    /// Returns the most units for one byte of a text without an automaton.
    pub(super) fn slow_units_of_byte(&self) -> u64 {
        let units = UNITS_OF_POSITION + self.positions / POSITIONS_OF_UNIT;
        self.positions.max(1).saturating_mul(units)
    }

    /// Returns the most units to read a text of a length with an automaton.
    fn units_of_scan(&self, length: u64, cache_bytes: u64) -> u64 {
        let bytes = self.width.saturating_mul(4).min(length + 1);
        let units = self
            .units_of_byte(cache_bytes)
            .saturating_mul(UNITS_OF_PART);
        bytes.saturating_mul(units)
    }

    /// Returns the most units for the instructions of a pass without a failure.
    fn units_of_pass(&self, elements: u64, length: u64) -> u64 {
        let by_length = self.length.saturating_mul(self.empties);
        elements
            .min(by_length.saturating_mul(length + 1))
            .saturating_mul(UNITS_OF_INSTRUCTION)
    }
}

/// A part that is tried as a whole and keeps no way back: a look-around or an atomic group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) size: Size,
    /// True if the part has look-around or back-references itself.
    pub(super) is_hard: bool,
    /// How often the part is tried in one pass.
    times: u64,
    /// The number of unbounded repetitions around it, within another cut.
    loops: u32,
    /// True if each failure elsewhere can allow one more try.
    is_repeated: bool,
}

impl Cut {
    pub(super) const fn new(size: Size, is_hard: bool) -> Self {
        Self {
            size,
            is_hard,
            times: 1,
            loops: 0,
            is_repeated: false,
        }
    }

    /// Changes the cut to one in a repetition, which can be within another cut.
    pub(super) fn repeat(&mut self, least: u64, most: Option<u64>, is_within_cut: bool) {
        let times = match (is_within_cut, most) {
            (true, Some(most)) => most,
            (true, None) => {
                self.loops += 1;
                least
            }
            (false, _) => {
                self.is_repeated |= most != Some(least);
                least
            }
        };
        self.times = self.times.saturating_mul(times.max(1));
    }

    fn units(&self, length: u64, cache_bytes: u64) -> u64 {
        let units = match self.is_hard {
            true => self.size.units_of_pass(self.size.width, length),
            false => self.size.units_of_scan(length, cache_bytes) + UNITS_OF_INSTRUCTION,
        };
        let times = (length + 1).saturating_pow(self.loops);
        units.saturating_mul(times).saturating_mul(self.times)
    }
}

/// The sizes that bound the work of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    pub(super) size: Size,
    pub(super) cuts: Vec<Cut>,
    /// The part after the last look-around or back-reference, which is read by an automaton.
    pub(super) tail: Size,
    /// The number of groups that capture.
    pub(super) groups: usize,
    /// True if the pattern can only match where the search begins.
    pub(super) is_anchored: bool,
}

impl Effort {
    /// Returns the most steps on the engine with look-around, for a number of failures.
    pub(super) fn steps(&self, failures: usize, length: usize, cache_bytes: u64) -> u64 {
        let (failures, length) = (failures as u64 + 1, length as u64);
        let groups = self.groups as u64;
        let mut once = self.size.units_of_pass(self.size.least, length);
        let bounds = groups.saturating_mul(groups);
        once = once.saturating_add(bounds.saturating_mul(UNITS_OF_BOUND));
        once = once.saturating_add(self.tail.units_of_scan(length, cache_bytes));
        let mut repeated = 0_u64;
        for cut in &self.cuts {
            let units = cut.units(length, cache_bytes);
            let sum = if cut.is_repeated {
                &mut repeated
            } else {
                &mut once
            };
            *sum = sum.saturating_add(units);
        }
        let units = once.saturating_mul(failures);
        let repeated = repeated.saturating_mul(failures + length);
        units.saturating_add(repeated) / UNITS_PER_STEP + 1
    }
}
