//! Which bucket a key is in.

use super::super::buckets::BucketBits;
use super::*;

proptest! {
    #[test]
    fn buckets_are_ranges_of_keys(chunk_bytes in 1..64usize << 20, key in any::<u64>(), group in 0..2u32) {
        let bits = BucketBits::new(chunk_bytes);
        let bucket = bits.of(key);
        prop_assert!(bucket < bits.number() && bits.number().is_power_of_two());
        let (start, last, key) = (bits.start(bucket).unwrap(), bits.last(bucket), SortKey::new(0, key));
        prop_assert!(start <= key && key <= last);
        prop_assert!(bits.start(bucket + 1).is_none_or(|next| last.key() + 1 == next.key()));
        prop_assert_eq!(bits.start(bits.number()), None);
        // What lies before a key is in the buckets before the end that it gives.
        let end = bits.end(&key);
        prop_assert!(end == bucket + usize::from(start < key));
        let other = SortKey::new(group, key.key());
        prop_assert_eq!(bits.at(&other), if group == 0 { bucket } else { bits.number() });
        prop_assert_eq!(bits.end(&SortKey::new(1, key.key())), bits.number());
    }
}
