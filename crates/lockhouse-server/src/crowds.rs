//! Counts connections by the address that they came from, and finds the address that has the most.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// The numbers of connections, by address. A higher number is a younger connection.
#[derive(Debug, Default)]
pub(crate) struct Crowds {
    of: HashMap<IpAddr, BTreeSet<u64>>,
    /// Each address with how many it has, the fewest first.
    sizes: BTreeSet<(usize, IpAddr)>,
}

impl Crowds {
    pub(crate) fn insert(&mut self, from: IpAddr, number: u64) {
        let numbers = self.of.entry(from).or_default();
        self.sizes.remove(&(numbers.len(), from));
        numbers.insert(number);
        self.sizes.insert((numbers.len(), from));
    }

    pub(crate) fn remove(&mut self, from: IpAddr, number: u64) {
        let Some(numbers) = self.of.get_mut(&from) else {
            return;
        };
        self.sizes.remove(&(numbers.len(), from));
        numbers.remove(&number);
        match numbers.len() {
            0 => drop(self.of.remove(&from)),
            left => drop(self.sizes.insert((left, from))),
        }
    }

    /// The connections of the address that has the most, the oldest first, if it has more than `few`.
    pub(crate) fn largest(&self, few: usize) -> impl Iterator<Item = u64> {
        let largest = self.sizes.last().filter(|(size, _)| *size > few);
        let numbers = largest.and_then(|(_, from)| self.of.get(from));
        numbers.into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_crowd_is_that_of_the_address_with_the_most_connections() {
        let [one, other] = [1, 2].map(|host| IpAddr::from([127, 0, 0, host]));
        let mut crowds = Crowds::default();
        let numbers = |crowds: &Crowds, few| crowds.largest(few).collect::<Vec<_>>();
        assert_eq!(numbers(&crowds, 0), [0; 0]);
        for (from, number) in [(one, 1), (other, 2), (one, 3), (other, 4), (other, 5)] {
            crowds.insert(from, number);
        }
        assert_eq!(numbers(&crowds, 2), [2, 4, 5]);
        assert_eq!(numbers(&crowds, 3), [0; 0]);
        crowds.remove(other, 2);
        crowds.remove(other, 2);
        crowds.remove(other, 5);
        assert_eq!(numbers(&crowds, 1), [1, 3]);
        for number in 1..6 {
            crowds.remove(one, number);
            crowds.remove(other, number);
        }
        assert!(crowds.of.is_empty() && crowds.sizes.is_empty());
    }
}
