use std::path::Path as FsPath;

use datafusion_execution::object_store::ObjectStoreUrl;
use object_store::ObjectStoreExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use proptest::prelude::*;
use tfr_files::UnchangedFiles;
use tfr_stores::FileNames;
use tfrecord_framing::RecordWriter;

use super::*;

/// Framed records with these payloads.
fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new());
    payloads.iter().for_each(|payload| writer.write_record(payload).expect("a Vec takes every byte"));
    writer.finish().expect("a Vec takes every byte")
}

/// Returns where the records begin, and where the last one ends.
fn starts(payloads: &[Vec<u8>]) -> Vec<Position> {
    let mut places = vec![Position::default()];
    let mut byte = 0;
    for (record, payload) in (1..).zip(payloads) {
        byte += (HEADER_LEN + payload.len() + FOOTER_LEN) as u64;
        places.push(Position { record, byte });
    }
    places
}

fn first_from(starts: &[Position], cut: u64) -> Position {
    starts[starts.partition_point(|start| start.byte < cut)]
}

/// Lists one file, with the store that it is read from.
async fn listed(file: &FsPath) -> (Arc<dyn ObjectStore>, ObjectMeta) {
    let store = Arc::new(LocalFileSystem::new());
    let path = Path::from_filesystem_path(file).expect("a path");
    let meta = store.head(&path).await.expect("the file is there");
    let url = ObjectStoreUrl::local_filesystem();
    let files = UnchangedFiles::new(store, &url, FileNames::default(), [meta.clone()].into());
    (Arc::new(files), meta)
}

async fn scanned(file: &FsPath, cuts: &[u64]) -> Boundaries {
    let (store, meta) = listed(file).await;
    BoundaryScan::new(cuts).boundaries(&store, &meta).await.expect("a readable file")
}

/// Payloads that are framed records themselves. Bytes alone do not distinguish them from the records around them.
fn nested() -> Vec<Vec<u8>> {
    let inner: Vec<_> = (0..30_u8).map(|byte| vec![byte; usize::from(byte) % 7]).collect();
    let deep = framed(&[framed(&inner), framed(&inner[..5])]);
    vec![b"first".to_vec(), framed(&inner), vec![], deep, framed(&inner[..9]), b"last".to_vec()]
}

#[tokio::test]
async fn boundary_scan_is_not_misled_by_records_in_payloads() {
    let dir = tempfile::tempdir().expect("a directory");
    let (payloads, file) = (nested(), dir.path().join("f"));
    std::fs::write(&file, framed(&payloads)).expect("written");
    let starts = starts(&payloads);
    let size = starts.last().expect("an end").byte;
    for cut in 1..size {
        let second = cut + (size - cut) / 2;
        let cuts = if second > cut { vec![cut, second] } else { vec![cut] };
        let expected: Vec<_> = cuts.iter().map(|cut| first_from(&starts, *cut)).collect();
        assert_eq!(scanned(&file, &cuts).await.as_deref(), Some(expected.as_slice()), "{cuts:?}");
    }
}

#[test]
fn pieces_end_at_every_cut_and_occupy_all_threads() {
    assert_eq!(stops(&[100], 1), [100]);
    assert_eq!(stops(&[100, 300], 2), [100, 300]);
    assert_eq!(stops(&[100, 300], 4), [50, 100, 200, 300]);
    assert_eq!(stops(&[90], 3), [30, 60, 90]);
    assert_eq!(stops(&[1, 2], 8), [0, 1, 2]);
    assert_eq!(stops(&[u64::MAX], 2), [u64::MAX / 2, u64::MAX]);
}

#[tokio::test]
async fn boundary_scan_reads_unsuitable_files_in_one_piece() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    let payloads = vec![vec![7; 100]; 50];
    let sound = framed(&payloads);
    let cuts = [2000, 4000];
    let mut damaged = sound.clone();
    damaged[116 * 10 + 3] ^= 1;
    let gzip = {
        let mut gzip = Vec::new();
        tfrecord_framing::gzip_member(&sound, tfrecord_framing::Level::try_from(0).expect("a level"), &mut gzip);
        gzip
    };
    for (name, bytes) in [("damaged header", &damaged), ("gzip", &gzip), ("cut", &sound[..3000].to_vec())] {
        std::fs::write(&file, bytes).expect("written");
        assert_eq!(scanned(&file, &cuts).await, None, "{name}");
    }
    // Damage of a payload is reported when it is read, with its record number.
    let mut payload = sound;
    payload[116 * 10 + 50] ^= 1;
    std::fs::write(&file, payload).expect("written");
    let starts = starts(&payloads);
    let expected = cuts.map(|cut| first_from(&starts, cut));
    assert_eq!(scanned(&file, &cuts).await.as_deref(), Some(expected.as_slice()));
}

#[tokio::test]
async fn parts_of_a_file_share_a_boundary_scan() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    let payloads = vec![vec![7; 100]; 50];
    std::fs::write(&file, framed(&payloads)).expect("written");
    let (store, meta) = listed(&file).await;
    let scan = BoundaryScan::new([1000, 3000]);
    let first = scan.clone();
    // A caller that was first and is never polled again blocks no other.
    let mut abandoned = Box::pin(first.boundaries(&store, &meta));
    let _ = futures::poll!(abandoned.as_mut());
    let boundaries = scan.boundaries(&store, &meta).await.expect("a readable file").expect("a sound file");
    std::fs::remove_file(&file).expect("removed");
    let again = scan.boundaries(&store, &meta).await.expect("no reading").expect("known from before");
    assert!(Arc::ptr_eq(&boundaries, &again));
    assert_eq!(abandoned.await.expect("a readable file").as_deref(), Some(&*boundaries));
}

/// Read in one piece, its rows would be in another order.
#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_for_all_parts() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    std::fs::write(&file, framed(&vec![vec![7; 100]; 50])).expect("written");
    let (store, meta) = listed(&file).await;
    std::fs::remove_file(&file).expect("removed");
    let scan = BoundaryScan::new([1000, 3000]);
    for _part in 0..2 {
        let error = scan.boundaries(&store, &meta).await.expect_err("it is gone").to_string();
        assert!(error.contains("it no longer exists"), "{error}");
    }
    let (store, meta) = {
        std::fs::write(&file, framed(&vec![vec![7; 100]; 50])).expect("written");
        listed(&file).await
    };
    std::fs::write(&file, framed(&vec![vec![8; 90]; 50])).expect("written");
    let error = BoundaryScan::new([1000]).boundaries(&store, &meta).await.expect_err("it is another").to_string();
    assert!(error.contains("changed while it was read"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_file_is_cut_where_records_begin(
        lengths in prop::collection::vec(prop_oneof![0_usize..40, 0_usize..3000], 1..40),
        cuts in prop::collection::btree_set(0..1000_u64, 1..6),
    ) {
        let payloads: Vec<_> = lengths.iter().map(|len| vec![*len as u8; *len]).collect();
        let starts = starts(&payloads);
        let size = starts[starts.len() - 1].byte;
        let mut cuts: Vec<_> = cuts.iter().map(|cut| 1 + cut * (size - 1) / 1000).collect();
        cuts.dedup();
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("f");
        std::fs::write(&file, framed(&payloads))?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let expected: Vec<_> = cuts.iter().map(|cut| first_from(&starts, *cut)).collect();
        let found = runtime.block_on(scanned(&file, &cuts));
        prop_assert_eq!(found.as_deref(), Some(expected.as_slice()));
    }
}
