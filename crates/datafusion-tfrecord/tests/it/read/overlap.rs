//! The output must not overwrite the input.

use std::fs;
use std::path::Path;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{ReadOptions, TfRecordFormatFactory, read};
use tempfile::tempdir;
use tfr_stores::Location;

use super::support::{examples, explained, external, write_records};

async fn context(location: &str) -> Result<SessionContext> {
    let mut state = SessionStateBuilder::new().with_default_features().build();
    state.register_file_format(std::sync::Arc::new(TfRecordFormatFactory), true)?;
    let context = SessionContext::new_with_state(state);
    let location = Location::parse(location).map_err(external)?;
    context.register_table("r", read::open(&context.state(), &[location], &ReadOptions::default()).await?)?;
    Ok(context)
}

async fn copied(location: &str, out: &Path) -> Result<()> {
    let copy = format!(
        "COPY (SELECT * FROM r) TO '{}' STORED AS TFRECORD OPTIONS ('tfrecord.mode' 'overwrite')",
        out.display()
    );
    context(location).await?.sql(&copy).await?.collect().await?;
    Ok(())
}

#[tokio::test]
async fn copy_rejects_a_target_that_overlaps_its_input() -> Result<()> {
    let dir = tempdir()?;
    let input = dir.path().join("in");
    write_records(&input.join("a/f.tfrecord"), &examples(0..3, |_| 1))?;
    let named = |suffix: &str| format!("{}{suffix}", input.display());
    for (location, out, refused) in [
        (named(""), input.join("out"), true),
        (named("/"), input.join("a"), true),
        (format!("file://{}", named("/")), input.join("out"), true),
        (named("/**/*.tfrecord"), input.join("out"), true),
        (named("/a/*.tfrecord"), input.join("a"), true),
        (named("/a/*.tfrecord"), input.join("out"), false),
        (named("/a/"), dir.path().join("out"), false),
    ] {
        match copied(&location, &out).await {
            Ok(()) => assert!(!refused, "{location} was read and {} written", out.display()),
            Err(error) => {
                let text = explained(&error);
                assert!(refused && text.contains("overlap"), "{location}, {}: {text}", out.display());
            }
        }
        assert_eq!(fs::read_dir(input.join("a"))?.count(), 1);
    }
    Ok(())
}
