//! Slots: the indexes of a slotted semaphore.
//!
//! A slotted semaphore numbers its permits from 0 to its capacity − 1. A grant takes as many of the
//! lowest free slots as its count, and the permit keeps them until it ends. The semaphore's row has
//! the set of taken slots, so that a grant reads no permits.

use std::fmt::{self, Write as _};
use std::iter;
use std::str::FromStr;

use crate::{Capacity, Invalid};

/// The largest capacity of a slotted semaphore.
pub const MAX_SLOTTED_CAPACITY: u32 = 4_096;

const WORD: u32 = u64::BITS;

/// Hexadecimal digits in a word.
const DIGITS: usize = 16;

/// A set of slots, each from 0 to 4,095: the taken slots of a semaphore, or the slots of a permit.
///
/// As text it is hexadecimal digits. The first digit stands for slots 0 to 3, its lowest bit for slot 0; zeros at the end
/// are left out. So slots 0, 1 and 4 are `31`.
///
/// ```
/// use lockhouse_core::Slots;
///
/// let mut taken = Slots::of([0, 1, 4])?;
/// assert_eq!(taken.to_string(), "31");
/// taken.remove(&Slots::of([1])?);
/// taken.extend(&Slots::of([7])?);
/// assert!(taken.iter().eq([0, 4, 7]));
/// assert!(taken.shared_with(&Slots::of([1, 2])?).is_empty());
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Slots {
    /// Slots 0 to 63, the lowest bit first. A capacity up to 64 needs no more, and so no allocation.
    first: u64,
    /// The others, 64 a word; the last word is not 0.
    rest: Vec<u64>,
}

impl Slots {
    /// The set of `slots`, in any order.
    ///
    /// # Errors
    /// [`Invalid`] on `slots` if one of them is above 4,095 or comes twice.
    pub fn of(slots: impl IntoIterator<Item = u32>) -> Result<Self, Invalid> {
        let mut set = Self::default();
        for slot in slots {
            if slot >= MAX_SLOTTED_CAPACITY {
                let most = MAX_SLOTTED_CAPACITY - 1;
                return Err(Invalid::new(
                    "slots",
                    format!("have {slot}, they go from 0 to {most}"),
                ));
            }
            if set.contains(slot) {
                return Err(Invalid::new("slots", format!("have {slot} twice")));
            }
            set.insert(slot);
        }
        Ok(set)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.first == 0 && self.rest.is_empty()
    }

    /// How many slots the set has.
    pub fn len(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// Whether the set has `slot`.
    pub fn contains(&self, slot: u32) -> bool {
        self.word((slot / WORD) as usize) & bit(slot) != 0
    }

    /// The slots, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self.words()).flat_map(|(at, word)| {
            let bits = (0..WORD).filter(move |bit| word & (1 << bit) != 0);
            bits.map(move |bit| at * WORD + bit)
        })
    }

    /// The slots that are in both sets.
    pub fn shared_with(&self, other: &Self) -> Self {
        let rest = self.rest.iter().zip(&other.rest);
        let rest = rest.map(|(a, b)| a & b).collect();
        Self::trimmed(self.first & other.first, rest)
    }

    /// Adds the slots of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.first |= other.first;
        if self.rest.len() < other.rest.len() {
            self.rest.resize(other.rest.len(), 0);
        }
        for (word, more) in self.rest.iter_mut().zip(&other.rest) {
            *word |= more;
        }
    }

    /// Removes the slots of `other`.
    pub fn remove(&mut self, other: &Self) {
        self.first &= !other.first;
        for (word, less) in self.rest.iter_mut().zip(&other.rest) {
            *word &= !less;
        }
        self.trim();
    }

    /// How many of the slots below `capacity` are not in the set.
    pub(crate) fn free(&self, capacity: Capacity) -> u32 {
        let capacity = capacity.value().min(MAX_SLOTTED_CAPACITY);
        let words = (0..capacity.div_ceil(WORD)).map(|at| self.free_in(at, capacity));
        words.map(u64::count_ones).sum()
    }

    /// Adds the `count` lowest slots below `capacity` that are not in the set, or as many as there
    /// are. Returns them.
    pub(crate) fn take(&mut self, count: u32, capacity: Capacity) -> Self {
        let capacity = capacity.value().min(MAX_SLOTTED_CAPACITY);
        let first = lowest(self.free_in(0, capacity), count);
        let mut left = count - first.count_ones();
        let mut rest = Vec::new();
        for at in 1..capacity.div_ceil(WORD) {
            if left == 0 {
                break;
            }
            let lowest = lowest(self.free_in(at, capacity), left);
            left -= lowest.count_ones();
            rest.push(lowest);
        }
        let taken = Self::trimmed(first, rest);
        self.extend(&taken);
        taken
    }

    fn insert(&mut self, slot: u32) {
        let Some(at) = ((slot / WORD) as usize).checked_sub(1) else {
            self.first |= bit(slot);
            return;
        };
        if self.rest.len() <= at {
            self.rest.resize(at + 1, 0);
        }
        self.rest[at] |= bit(slot);
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        iter::once(self.first).chain(self.rest.iter().copied())
    }

    fn word(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            None => self.first,
            Some(at) => self.rest.get(at).copied().unwrap_or(0),
        }
    }

    /// The bits of the word `at` whose slots are below `capacity` and not in the set.
    fn free_in(&self, at: u32, capacity: u32) -> u64 {
        let slots = capacity - at * WORD;
        let all = match slots {
            0..WORD => (1 << slots) - 1,
            _ => u64::MAX,
        };
        all & !self.word(at as usize)
    }

    fn trimmed(first: u64, rest: Vec<u64>) -> Self {
        let mut set = Self { first, rest };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.rest.last() == Some(&0) {
            self.rest.pop();
        }
    }
}

/// The `count` lowest set bits of `word`, or all of them if there are fewer.
fn lowest(word: u64, count: u32) -> u64 {
    if word.count_ones() <= count {
        return word;
    }
    let mut rest = word;
    for _ in 0..count {
        rest &= rest - 1;
    }
    word & !rest
}

const fn bit(slot: u32) -> u64 {
    1 << (slot % WORD)
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.rest.last().copied().unwrap_or(self.first);
        let digit = |word: u64, at: u32| {
            let digit = (word >> (4 * at)) as u32 & 15;
            char::from_digit(digit, 16).expect("it is below 16")
        };
        for word in self.words().take(self.rest.len()) {
            for at in 0..DIGITS as u32 {
                f.write_char(digit(word, at))?;
            }
        }
        let digits = DIGITS as u32 - last.leading_zeros() / 4;
        for at in 0..digits {
            f.write_char(digit(last, at))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromStr for Slots {
    type Err = Invalid;

    /// Parses the displayed form.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let malformed = || Invalid::new("slots", "are not hexadecimal digits, at most 1,024");
        let digits = text.as_bytes();
        if digits.len() > MAX_SLOTTED_CAPACITY as usize / 4 {
            return Err(malformed());
        }
        let word = |digits: &[u8]| {
            digits.iter().rev().try_fold(0, |word: u64, digit| {
                let digit = char::from(*digit).to_digit(16)?;
                Some(word << 4 | u64::from(digit))
            })
        };
        let mut words = digits
            .chunks(DIGITS)
            .map(|digits| word(digits).ok_or_else(malformed));
        let first = words.next().transpose()?.unwrap_or(0);
        let rest = words.collect::<Result<_, _>>()?;
        Ok(Self::trimmed(first, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(slots: impl IntoIterator<Item = u32>) -> Slots {
        Slots::of(slots).unwrap()
    }

    fn capacity(capacity: u32) -> Capacity {
        Capacity::new(capacity).unwrap()
    }

    #[test]
    fn the_lowest_free_slots_are_taken() {
        let mut taken = set([0, 2, 5]);
        assert_eq!(taken.take(3, capacity(8)), set([1, 3, 4]));
        assert_eq!(taken, set(0..=5));
        assert_eq!(taken.take(3, capacity(8)), set([6, 7]));
    }

    #[test]
    fn slots_are_taken_across_words() {
        let mut taken = set(0..62);
        assert_eq!(taken.take(4, capacity(4_096)), set(62..66));
        assert_eq!(taken.free(capacity(4_096)), 4_096 - 66);
        assert_eq!(taken.take(5_000, capacity(4_096)).len(), 4_096 - 66);
        assert_eq!(taken.free(capacity(4_096)), 0);
    }

    /// Slots that a shrink left above the capacity take no room below it.
    #[test]
    fn free_slots_are_counted_below_the_capacity() {
        let taken = set([0, 70]);
        assert_eq!(taken.free(capacity(0)), 0);
        assert_eq!(taken.free(capacity(1)), 0);
        assert_eq!(taken.free(capacity(64)), 63);
        assert_eq!(taken.free(capacity(70)), 69);
        assert_eq!(taken.free(capacity(71)), 69);
    }

    #[test]
    fn removed_slots_are_free_again() {
        let mut taken = set([1, 64, 200]);
        taken.remove(&set([64, 200, 300]));
        assert_eq!(taken, set([1]));
        assert_eq!(taken.shared_with(&set([0, 1, 2])), set([1]));
        taken.remove(&set([1]));
        assert!(taken.is_empty());
        assert_eq!(taken, Slots::default());
    }

    #[test]
    fn a_set_comes_back_from_its_text() {
        for (slots, text) in [
            (set([]), String::new()),
            (set([0, 1, 4]), "31".to_owned()),
            (set(0..64), "f".repeat(16)),
            (set([63]), "0".repeat(15) + "8"),
            (set([64]), "0".repeat(16) + "1"),
            (set(0..4_096), "f".repeat(1_024)),
        ] {
            assert_eq!(slots.to_string(), text);
            assert_eq!(text.parse::<Slots>().unwrap(), slots);
        }
        assert_eq!("3000".parse::<Slots>().unwrap(), set([0, 1]));
        assert!("g".parse::<Slots>().is_err());
        assert!("0".repeat(1_025).parse::<Slots>().is_err());
    }

    #[test]
    fn slots_go_from_0_to_4095_once_each() {
        assert!(Slots::of([4_095]).is_ok());
        assert!(Slots::of([4_096]).is_err());
        let twice = Slots::of([3, 3]).unwrap_err();
        assert_eq!(twice.to_string(), "slots have 3 twice");
        assert_eq!(set([9, 3, 70]).iter().collect::<Vec<_>>(), [3, 9, 70]);
    }
}
