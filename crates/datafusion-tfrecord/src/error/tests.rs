use super::*;

#[test]
fn shards_error_keeps_io_errors() {
    let full = io::Error::from(io::ErrorKind::StorageFull);
    let error = shards_error(tfrecord_shards::Error::from(full));
    assert!(
        matches!(&error, DataFusionError::IoError(error) if error.kind() == io::ErrorKind::StorageFull),
        "{error:?}"
    );
    let missing = std::path::Path::new("no such directory").join("out");
    let error = shards_error(tfrecord_shards::Manifest::read(missing).expect_err("there is none"));
    assert!(matches!(&error, DataFusionError::External(_)), "{error:?}");
}
