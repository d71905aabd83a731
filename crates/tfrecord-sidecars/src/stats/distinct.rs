//! [`Distinct`]: an estimate of the number of distinct values: HyperLogLog.
//!
//! Source: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the analysis of a near-optimal cardinality estimation
//! algorithm", 2007; the estimate by Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017,
//! algorithm 6, which needs no tables and no special cases.

use serde::{Deserialize, Serialize};

/// Bits of a hash that select a register.
const BITS: u32 = 13;

/// The number of registers. The standard error is `1.04 / sqrt(REGISTERS)`: 1.15 %.
const REGISTERS: usize = 1 << BITS;

/// The maximum value of a register.
const MOST: usize = 64 - BITS as usize + 1;

/// The minimum register is recomputed after this many changes: rarely enough to cost almost nothing.
const CHANGES: u32 = REGISTERS as u32 / 2;

/// The smallest minimum register that is used to skip values: one value in two to the power of this is then processed.
const SURE: u8 = 4;

/// A HyperLogLog sketch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Distinct {
    /// `None` before the first value: most features have too few values to need a sketch.
    #[serde(with = "registers")]
    registers: Option<Box<[u8; REGISTERS]>>,
    /// A lower bound of all registers; zero below [`SURE`]. With many values, the hash alone shows that most of them
    /// change nothing.
    least: u8,
    /// Registers that have changed since `least` was found.
    changes: u32,
}

impl Distinct {
    /// Adds values by their hashes.
    #[inline(always)]
    pub(super) fn add(&mut self, hashes: &[u64]) {
        if hashes.is_empty() {
            return;
        }
        let least = self.least;
        let registers = self.registers.get_or_insert_with(none_set);
        for hash in hashes {
            // The position of the lowest one bit among the other bits, which more processors find quickly than the
            // highest. A sentinel bit after them bounds it.
            let place = (hash | 1 << (64 - BITS)).trailing_zeros() as u8 + 1;
            if place > least
                && let Some(register) = registers.get_mut((hash >> (64 - BITS)) as usize)
                && place > *register
            {
                *register = place;
                self.changes += 1;
            }
        }
        if self.changes >= CHANGES {
            self.find_least();
        }
    }

    #[cold]
    fn find_least(&mut self) {
        let least = self.registers.iter().flat_map(|registers| registers.iter()).copied().min().unwrap_or_default();
        // A branch taken for half or a quarter of the values is unpredictable, and mispredictions cost more than they
        // save.
        self.least = if least < SURE { 0 } else { least };
        self.changes = 0;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let Some(other) = &other.registers else { return };
        for (register, other) in self.registers.get_or_insert_with(none_set).iter_mut().zip(other.iter()) {
            *register = (*register).max(*other);
        }
        self.find_least();
    }

    pub(super) fn estimate(&self) -> u64 {
        let Some(registers) = &self.registers else { return 0 };
        let mut counts = [0_u32; MOST + 1];
        for register in registers.iter() {
            if let Some(count) = counts.get_mut(usize::from(*register)) {
                *count += 1;
            }
        }
        let registers = REGISTERS as f64;
        let [zeros, between @ .., full] = counts;
        let mut sum = registers * tau(1.0 - f64::from(full) / registers);
        for count in between.into_iter().rev() {
            sum = 0.5 * (sum + f64::from(count));
        }
        sum += registers * sigma(f64::from(zeros) / registers);
        (registers * registers / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
    }
}

fn none_set() -> Box<[u8; REGISTERS]> {
    Box::new([0; REGISTERS])
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// The registers as a sequence, whose length is checked, and of zeros if no value was added.
mod registers {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::REGISTERS;

    pub(super) fn serialize<S: Serializer>(
        registers: &Option<Box<[u8; REGISTERS]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        registers.as_deref().unwrap_or(&[0; REGISTERS]).as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<Option<Box<[u8; REGISTERS]>>, D::Error> {
        let registers = Vec::<u8>::deserialize(deserializer)?.into_boxed_slice();
        let registers: Box<[u8; REGISTERS]> =
            registers.try_into().map_err(|_| D::Error::custom("another number of registers"))?;
        Ok(Some(registers).filter(|registers| registers.iter().any(|register| *register > 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    /// Within three standard errors, for consecutive numbers, numbers far apart, and numbers with few bits.
    #[test]
    fn within_three_standard_errors() {
        let spread: [fn(u64) -> u64; 3] = [|i| i, |i| i << 40, |i| i.wrapping_mul(1_000_003)];
        for (kind, spread) in spread.into_iter().enumerate() {
            for count in [0, 1, 2, 10, 1000, 10_000, 100_000, 1_000_000] {
                let mut sketch = Distinct::default();
                (0..count).for_each(|i| sketch.add(&[hash::word(spread(i))]));
                let error = sketch.estimate().abs_diff(count) as f64 / count.max(1) as f64;
                assert!(error <= 0.035, "{kind}: {} instead of {count}", sketch.estimate());
            }
        }
    }

    #[test]
    fn distinct_estimate_is_accurate_for_strings() {
        let names: [fn(u64) -> String; 5] = [
            |i| format!("customer#{i:09}"),
            |i| i.to_string(),
            |i| format!("{i:08x}"),
            |i| format!("{i:b}").chars().rev().take(12).collect(),
            |i| format!("{i:05}-suffix"),
        ];
        for (kind, name) in names.into_iter().enumerate() {
            let mut sketch = Distinct::default();
            let mut exact = std::collections::BTreeSet::new();
            for name in (0..50_000).map(name) {
                sketch.add(&[hash::bytes(name.as_bytes())]);
                exact.insert(name);
            }
            let error = sketch.estimate().abs_diff(exact.len() as u64) as f64 / exact.len() as f64;
            assert!(error <= 0.035, "{kind}: {} instead of {}", sketch.estimate(), exact.len());
        }
    }

    /// Skipping most values does not change the registers.
    #[test]
    fn distinct_skips_only_values_that_change_nothing() {
        let mut sketch = Distinct::default();
        let mut registers = vec![0; REGISTERS];
        for i in 0..2_000_000 {
            let hash = hash::word(i);
            sketch.add(&[hash]);
            let register = &mut registers[(hash >> (64 - BITS)) as usize];
            *register = (hash.trailing_zeros() as u8 + 1).min(MOST as u8).max(*register);
        }
        assert!(sketch.least >= SURE);
        assert_eq!(sketch.registers.as_deref().map(|found| found.to_vec()), Some(registers));
    }

    /// A repeated value changes nothing, in any part.
    #[test]
    fn distinct_merge_equals_adding_to_one_sketch() {
        let (mut whole, mut one, mut other) = (Distinct::default(), Distinct::default(), Distinct::default());
        for i in 0..20_000 {
            let hash = hash::word(i % 15_000);
            whole.add(&[hash]);
            if i % 3 == 0 { one.add(&[hash]) } else { other.add(&[hash]) }
        }
        one.merge(&other);
        assert_eq!(one.registers, whole.registers);
    }
}
