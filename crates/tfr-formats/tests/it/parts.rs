//! Text files read in parts: wherever a file is split, the rows are those of the whole.

use std::path::Path;

use datafusion::error::Result;
use datafusion::physical_plan::collect_partitioned;

use crate::support::{chain, session, texts, write};

/// Reads the rows of a file part by part; also returns the number of parts.
async fn in_parts(path: &Path, options: &str, parts: usize) -> Result<(Vec<Vec<String>>, usize)> {
    let ctx = session(parts);
    ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
    let spec = format!("t=\"{}\"{options}", path.display()).parse()?;
    ctx.register_table("t", tfr_formats::open_table(&ctx.state(), &spec).await?)?;
    let plan = ctx.sql("SELECT * FROM t").await?.create_physical_plan().await?;
    let parts = collect_partitioned(plan, ctx.task_ctx()).await?;
    Ok((texts(&parts.concat())?, parts.len()))
}

/// From one part to one part per byte.
fn numbers_of_parts(text: &str) -> impl Iterator<Item = usize> {
    (1..20).chain([text.len() / 3, text.len() / 2, text.len()])
}

#[tokio::test]
async fn part_reads_yield_the_rows_of_the_whole_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let hive = ",format=hive-text,\"schema=n INT, l ARRAY<STRING>, s STRING\"";
    for (name, options, text, first, rows) in [
        (
            "t.csv",
            ",newlines_in_values=false",
            "\u{feff}s,n\r\n\"é,\"\"\",1\r\n\r\n,2\r\n\"\",3\r\n🦀🦀,4\r\nlast,5",
            ["é,\"", "1"].as_slice(),
            5,
        ),
        ("t.csv", ",newlines_in_values=false,header=false", "a,1\nb,2\n\nc,3\n", &["a", "1"], 3),
        ("t.csv", ",newlines_in_values=false,terminator=~", "s,n~é,1~,2~c,3", &["é", "1"], 3),
        ("t.csv", ",newlines_in_values=false", "s\n\n\"\"\nx\n", &["NULL"], 3),
        ("t.json", "", "{\"s\":\"é\\n}\",\"n\":[1,2]}\r\n\n {\"s\":\"{\"}\n{\"n\":[]}", &["é\n}", "[1, 2]"], 3),
        ("000000_0", hive, "1\x01p\x02q\x01é\n2\x01\x01\r\n\\N\x01r\x01s\rlast\n4\x01\\N", &["1", "[p, q]", "é"], 5),
        ("t.svm", "", "# é\n1 1:1 3:0.5\r\n\n-1 2:1 # x\n2\n", &["1.0", "[1, 3]", "[1.0, 0.5]"], 3),
    ] {
        write(dir.path(), &[(name, text.as_bytes())])?;
        let path = dir.path().join(name);
        let (whole, _) = in_parts(&path, options, 1).await?;
        assert_eq!(
            (whole[0].as_slice(), whole.len()),
            (first.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>().as_slice(), rows),
            "{text:?}"
        );
        for parts in numbers_of_parts(text) {
            let (found, count) = in_parts(&path, options, parts).await?;
            assert_eq!(found, whole, "{text:?} in {parts} parts");
            assert!(count > 1 || parts == 1, "{text:?} in one part for {parts}");
            assert!(parts < text.len() || count == text.len(), "{text:?} in {count} parts");
        }
    }
    Ok(())
}

/// A reader in the middle of a file cannot detect whether a line end is in quotes.
#[tokio::test]
async fn part_reads_do_not_cut_at_line_ends_in_quotes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let text = "s,n\na,1\n\"b\nb\",2\n\"c,\n\n3\",3\nd,4\n";
    write(dir.path(), &[("t.csv", text.as_bytes())])?;
    let path = dir.path().join("t.csv");
    let (whole, _) = in_parts(&path, "", 1).await?;
    assert_eq!(whole, [["a", "1"], ["b\nb", "2"], ["c,\n\n3", "3"], ["d", "4"]]);
    for parts in numbers_of_parts(text) {
        assert_eq!(in_parts(&path, "", parts).await?, (whole.clone(), 1));
        let promised = in_parts(&path, ",newlines_in_values=false", parts).await;
        let message = chain(&promised.expect_err("the promise does not hold"));
        assert!(message.contains("t.csv: line "), "{message}");
    }
    Ok(())
}
