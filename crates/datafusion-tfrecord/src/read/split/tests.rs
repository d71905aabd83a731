use super::*;

/// A file of this many bytes.
fn file(name: &str, size: u64) -> PartitionedFile {
    PartitionedFile::new(name, size)
}

/// A shard that can be read from these bytes.
fn shard(name: &str, size: u64, offsets: &[u64]) -> PartitionedFile {
    let offsets = offsets.iter().map(|file| RecordOffset { record: *file, framed: *file, file: *file });
    let container = Some(tfrecord_framing::Compression::Gzip.into());
    file(name, size).with_extension(KnownFile { offsets: offsets.collect(), container, ..KnownFile::default() })
}

fn divided(files: &[PartitionedFile], partitions: usize) -> Vec<Vec<String>> {
    let groups = divide(&[FileGroup::new(files.to_vec())], partitions, 1, Cutting::Anywhere).expect("divided");
    shown(&groups)
}

fn shown(groups: &[FileGroup]) -> Vec<Vec<String>> {
    let shown = |part: &PartitionedFile| match &part.range {
        Some(range) => format!("{}[{}..{}]", part.object_meta.location, range.start, range.end),
        None => part.object_meta.location.to_string(),
    };
    groups.iter().map(|group| group.iter().map(shown).collect()).collect()
}

#[test]
fn split_cuts_files_without_manifest_anywhere() {
    assert_eq!(divided(&[file("a", 100)], 3), [["a[0..33]"], ["a[33..66]"], ["a[66..100]"]]);
    assert_eq!(
        divided(&[file("a", 30), file("b", 60), file("c", 10)], 2),
        [vec!["a", "b[0..20]"], vec!["b[20..60]", "c"]]
    );
    assert_eq!(divided(&[file("a", 50), file("b", 50)], 2), [["a"], ["b"]]);
}

#[test]
fn split_cuts_shards_at_manifest_offsets() {
    let offsets = [16, 32, 48, 64, 80];
    assert_eq!(divided(&[shard("a", 96, &offsets)], 2), [["a[0..48]"], ["a[48..96]"]]);
    assert_eq!(divided(&[shard("a", 100, &offsets)], 3), [["a[0..32]"], ["a[32..64]"], ["a[64..100]"]]);
    // More partitions than positions: fewer groups.
    assert_eq!(divided(&[shard("a", 96, &[40])], 8), [["a[0..40]"], ["a[40..96]"]]);
    assert_eq!(divided(&[shard("a", 96, &[])], 2), [["a"]]);
}

#[test]
fn split_assigns_a_whole_file_to_the_group_with_most_of_it() {
    let whole = |name, size| shard(name, size, &[]);
    assert_eq!(divided(&[whole("a", 70), whole("b", 30)], 2), [["a"], ["b"]]);
    assert_eq!(divided(&[whole("a", 10), whole("b", 20), whole("c", 70)], 2), [vec!["a", "b"], vec!["c"]]);
    let groups = divide(&[FileGroup::new(vec![file("a", 90)])], 3, 1, Cutting::Listed).expect("divided");
    assert_eq!(shown(&groups), [["a"]]);
    let groups = divide(&[FileGroup::new(vec![shard("a", 90, &[30, 60])])], 3, 1, Cutting::Nowhere).expect("divided");
    assert_eq!(shown(&groups), [["a"]]);
}

#[test]
fn split_of_parts_equals_split_of_files() {
    let files = [file("a", 30), file("b", 60), shard("c", 96, &[40])];
    let whole = FileGroup::new(files.to_vec());
    for (first, second) in [(2, 5), (5, 2), (3, 3)] {
        let once = divide(std::slice::from_ref(&whole), first, 1, Cutting::Anywhere).expect("divided");
        let twice = divide(&once, second, 1, Cutting::Anywhere).expect("divided");
        let directly = divide(std::slice::from_ref(&whole), second, 1, Cutting::Anywhere).expect("divided");
        assert_eq!(shown(&twice), shown(&directly), "{first} {second}");
    }
    let part = FileGroup::new(vec![file("a", 30).with_range(10, 30)]);
    assert!(divide(&[part], 2, 1, Cutting::Anywhere).is_none());
}

#[test]
fn every_byte_is_in_one_group() {
    let files = [file("a", 7), shard("b", 1000, &[100, 300, 999]), file("c", 0), file("d", 12345), shard("e", 3, &[])];
    for partitions in 2..20 {
        let groups = divide(&[FileGroup::new(files.to_vec())], partitions, 1, Cutting::Anywhere).expect("divided");
        assert!(groups.len() <= partitions);
        assert_eq!(shown(&[FileGroup::new(whole_files(&groups).expect("whole"))]), [["a", "b", "c", "d", "e"]]);
    }
    assert!(divide(&[FileGroup::new(files.to_vec())], 2, 1 << 20, Cutting::Anywhere).is_none());
}
