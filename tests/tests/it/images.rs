//! Images: what their headers are said to hold, shards of them as the tutorials have them, and the functions beside these
//! against the ops of TensorFlow.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use serde_json::{Value, json};
use tfr_tests::{
    Corpus, Feature, Operation, Record, S3Server, Scratch, WebServer, WebServerOptions, read_file, read_shards,
    repository, run, shard_files, tfr_sql,
};

use crate::checker::with_tensorflow;
use crate::session;

/// An image of the corpus, and what its header is said to hold: format, width, height and channels.
type Header = (String, Option<(String, i64, i64, i64)>);

async fn headers(corpus: &Corpus) -> Vec<Header> {
    // The folders of Spark's are partitions, those of others are not.
    let query = ["[!s]*", "spark"].map(|folders| {
        let images = corpus.join("image").join(folders);
        format!("SELECT path, try_image_info(content) AS info FROM files('{}/**')", images.display())
    });
    let query = format!(
        "SELECT path, info['format'], info['width'], info['height'], info['channels'] FROM ({})",
        query.join(" UNION ALL ")
    );
    let rows = session::of_command(2).sql(&query).await.unwrap();
    let schema = Arc::clone(rows.schema().inner());
    let rows = concat_batches(&schema, &rows.collect().await.unwrap()).unwrap();
    let text = |column: usize, row: usize| rows.column(column).as_string::<i32>().value(row).to_owned();
    let number = |column: usize, row: usize| rows.column(column).as_primitive::<Int64Type>().value(row);
    let header = |row: usize| {
        let is_image = rows.column(1).is_valid(row);
        (text(0, row), is_image.then(|| (text(1, row), number(2, row), number(3, row), number(4, row))))
    };
    (0..rows.num_rows()).map(header).collect()
}

/// Frames of these reach beyond the screen that their headers tell of; readers make of that what they will.
const WITH_LONG_FRAMES: [&str; 2] = ["image/image/gif/anim/oob.gif", "image/image/gif/simple/issue_1455_oversized.gif"];

/// Every image of the corpus has the format and the size that another reader found; what does not decode may have a
/// header all the same.
#[tokio::test]
async fn image_headers_match_other_readers() {
    let Some(corpus) = Corpus::find() else { return };
    let expected = fs::read_to_string(corpus.join("expected/image/images.jsonl")).unwrap();
    let expected = expected.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let expected: BTreeMap<_, _> = expected.map(|image| (image["path"].as_str().unwrap().to_owned(), image)).collect();
    let kinds: BTreeMap<_, _> =
        corpus.entries(&["image"]).into_iter().map(|entry| (entry.path, entry.expect)).collect();
    let root = corpus.join("").canonicalize().unwrap();
    let (mut sound, mut wrong) = (0, Vec::new());
    for (path, found) in headers(&corpus).await {
        // The corpus may lie behind a link.
        let path = Path::new(&path).canonicalize().unwrap();
        let path = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let is_sound = kinds[path] == "ok";
        sound += usize::from(is_sound);
        if WITH_LONG_FRAMES.contains(&path) {
            continue;
        }
        let right = &expected[path];
        let (is_right, is_known) = match &found {
            None => (!is_sound, true),
            Some((format, width, height, _)) => {
                let known = json!([right["format"], right["width"], right["height"]]);
                (json!([format, width, height]) == known, !right["width"].is_null())
            }
        };
        if !is_right && (is_sound || is_known) {
            wrong.push(format!("{path}: {found:?}, expected {right}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(sound, 90);
}

/// TensorFlow makes of each as many pixels and channels as the header is said to have.
#[tokio::test]
async fn tensorflow_decodes_as_many_pixels() {
    let Some(corpus) = Corpus::find() else { return };
    let headers = headers(&corpus).await;
    let images: Vec<_> = headers
        .iter()
        .filter(|(path, _)| !WITH_LONG_FRAMES.iter().any(|long| path.ends_with(long)))
        .filter_map(|(path, header)| {
            header.as_ref().map(|(_, width, height, channels)| json!([path, height, width, channels]))
        })
        .collect();
    let scratch = Scratch::default();
    let input = scratch.text("images.json", &Value::from(images).to_string());
    let checked = with_tensorflow("tests/interop/check_headers.py", |command| {
        command.stdin(Stdio::from(File::open(input).unwrap()))
    });
    let Some(checked) = checked else { return };
    assert_eq!(checked.stdout.trim(), "89 decoded");
}

/// The records of an example query, and the shards that they are in.
fn example(scratch: &Scratch, name: &str, arguments: &[&str]) -> (Vec<String>, Vec<Record>) {
    let out = scratch.join(name);
    let query = format!("examples/{name}.sql");
    run(tfr_sql().args(["-f", &query]).arg("--out").arg(&out).args(arguments)).success();
    let shards = shard_files(&out);
    let names = shards.iter().map(|shard| shard.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    (names, shards.iter().flat_map(|shard| read_file(shard)).collect())
}

/// The records as lines, images as their lengths.
fn lines(records: &[Record]) -> String {
    let value = |feature: &Feature| match feature {
        Feature::Bytes(values) if values[0].len() > 100 => format!("{} bytes", values[0].len()),
        Feature::Bytes(values) => String::from_utf8(values[0].clone()).unwrap(),
        Feature::Int64(values) => format!("{}", values[0]),
        other => panic!("{other:?}"),
    };
    let line = |record: &Record| {
        let features: Vec<_> = record
            .iter()
            .map(|(name, feature)| format!("{}={}", name.trim_start_matches("image/"), value(feature)))
            .collect();
        features.join(" ")
    };
    let mut lines: Vec<_> = records.iter().map(line).collect();
    lines.sort();
    lines.join("\n")
}

const TUTORIAL: &[&str] = &["--shards", "1"];
const INCEPTION: &[&str] = &["--prefix", "train", "--shards", "2"];

#[test]
fn the_tutorial_is_one_query() {
    let scratch = Scratch::default();
    let (shards, records) = example(&scratch, "image_tutorial", TUTORIAL);
    assert_eq!(shards.len(), 1);
    insta::assert_snapshot!(lines(&records), @"
    depth=1 height=215 image_raw=36728 bytes label=0 width=300
    depth=3 height=128 image_raw=30605 bytes label=2 width=128
    depth=3 height=149 image_raw=5770 bytes label=3 width=227
    depth=3 height=178 image_raw=13224 bytes label=1 width=284
    depth=3 height=240 image_raw=21474 bytes label=0 width=320
    ");
}

#[test]
fn shards_of_inception_are_one_query() {
    let scratch = Scratch::default();
    let (shards, records) = example(&scratch, "image_inception", INCEPTION);
    assert_eq!(shards, ["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"]);
    insta::assert_snapshot!(lines(&records), @"
    channels=1 class/label=1 class/text=cat colorspace=Grayscale encoded=36728 bytes filename=grayscale.jpg format=JPEG height=215 width=300
    channels=3 class/label=1 class/text=cat colorspace=RGB encoded=21474 bytes filename=cat.jpg format=JPEG height=240 width=320
    channels=3 class/label=2 class/text=lake colorspace=RGB encoded=13224 bytes filename=image5.jpg format=JPEG height=178 width=284
    channels=3 class/label=3 class/text=rose colorspace=RGB encoded=5770 bytes filename=testorig.jpg format=JPEG height=149 width=227
    ");
}

/// What is in the records is what TensorFlow makes of the images, read as `schema --as python` says.
#[test]
fn tensorflow_decodes_the_images() {
    let scratch = Scratch::default();
    for (name, arguments, image, sizes) in [
        ("image_tutorial", TUTORIAL, "image_raw", ["height", "width", "depth"]),
        ("image_inception", INCEPTION, "image/encoded", ["image/height", "image/width", "image/channels"]),
    ] {
        let (_, records) = example(&scratch, name, arguments);
        let out = scratch.join(name);
        let module = run(tfr_sql().arg("schema").arg(&out).args(["--as", "python"])).success().stdout;
        for size in sizes {
            assert!(module.contains(&format!("\"{size}\": tf.io.FixedLenFeature([], tf.int64)")), "{module}");
        }
        let module = scratch.text(&format!("{name}.py"), &module);
        let Some(read) = with_tensorflow("tests/interop/check_images.py", |command| command.arg(module).arg(&out))
        else {
            return;
        };
        let rows: Vec<Value> = read.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), records.len());
        for row in rows {
            assert_eq!(row[image]["decoded"], json!(sizes.map(|size| row[size].clone())), "{row}");
        }
    }
}

/// Every dtype that Arrow has, in every shape.
#[test]
fn tensorflow_reads_tensors_and_records_of_functions() {
    const DTYPES: [(&str, &str); 14] = [
        ("bool", "Boolean"),
        ("int8", "Int8"),
        ("int16", "Int16"),
        ("int32", "Int32"),
        ("int64", "Int64"),
        ("uint8", "UInt8"),
        ("uint16", "UInt16"),
        ("uint32", "UInt32"),
        ("uint64", "UInt64"),
        ("float16", "Float16"),
        ("float32", "Float32"),
        ("float64", "Float64"),
        ("string", "Utf8"),
        ("string", "LargeBinary"),
    ];
    let mut columns = Vec::new();
    for (dtype, arrow) in DTYPES {
        // Arrow casts numbers to text, and text to bytes.
        let values = |values: &str, lists: usize| {
            let list = |of: &str| (0..lists).fold(of.to_owned(), |of, _| format!("List({of})"));
            let text =
                if dtype == "string" { format!("arrow_cast({values}, '{}')", list("Utf8")) } else { values.to_owned() };
            format!("arrow_cast({text}, '{}')", list(arrow))
        };
        let mut column = |name: &str, tensor: String| {
            let name = format!("tensor/{dtype}/{name}");
            if !columns.iter().any(|column: &String| column.contains(&name)) {
                columns.push(format!("{tensor} AS \"{name}\""));
            }
        };
        column("scalar", format!("serialize_tensor({})", values("3", 0)));
        column("list", format!("serialize_tensor({})", values("[0, 1, 3]", 1)));
        column("empty", format!("serialize_tensor(array_slice({}, 4, 4))", values("[0, 1, 3]", 1)));
        column("matrix", format!("serialize_tensor({})", values("[[0, 1, 3], [1, 0, 2]]", 2)));
        column("shaped", format!("serialize_tensor({}, [2, -1])", values("[0, 1, 3, 2]", 1)));
    }
    columns.push("tf_example({label: 7, name: 'é', emb: [0.5, 1.5]::REAL[]}) AS record".to_owned());
    columns
        .push("tf_sequence_example({id: 7, frames: [[1, 2], [3]], words: ['a', 'b']}, 'words') AS sequence".to_owned());
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(tfr_sql().arg(format!("SELECT {}", columns.join(", "))).arg("--out").arg(&out).args(["--shards", "1"]))
        .success();
    let Some(checked) = with_tensorflow("tests/interop/check_functions.py", |command| command.arg(Path::new(&out)))
    else {
        return;
    };
    assert_eq!(checked.stdout.trim(), "ok");
}

/// What a query gets from a bucket, as CSV without the header.
fn rows_of(server: &S3Server, query: &str) -> String {
    let found = run(server.tfr_sql().args([query, "--threads", "1", "--format", "csv"])).success().stdout;
    found.lines().skip(1).collect::<Vec<_>>().join("\n")
}

/// Files of a remote store are asked for at once, some of them, each once, and only by who wants their content.
#[test]
fn files_of_a_bucket() {
    let server = S3Server::default();
    let image = fs::read(repository().join("examples/data/images/rose/testorig.jpg")).unwrap();
    for number in 0..40 {
        server.put(&format!("images/label={}/{number:02}.jpg", ["cat", "rose"][number % 2]), &image);
    }
    server.put("images/_SUCCESS", "");
    let files = "FROM files('s3://data/images/**')";
    assert_eq!(rows_of(&server, &format!("SELECT count(*) {files} WHERE label = 'rose' AND size > 0")), "20");
    assert_eq!(rows_of(&server, &format!("SELECT min(path) {files}")), "s3://data/images/label=cat/00.jpg");
    assert_eq!(server.count(Operation::Get), 0);

    server.delay(Duration::from_millis(50));
    let widths =
        format!("SELECT label, count(*), sum(image_info(content)['width']) {files} GROUP BY label ORDER BY label");
    assert_eq!(rows_of(&server, &widths), "cat,20,4540\nrose,20,4540");
    assert_eq!(server.count(Operation::Get), 40);
    assert!((2..=16).contains(&server.most_at_once(Operation::Get)), "{}", server.most_at_once(Operation::Get));
}

/// The signature of a URL is for the server alone.
#[test]
fn a_signed_url_stays_secret() {
    let image = fs::read(repository().join("examples/data/images/rose/testorig.jpg")).unwrap();
    let server = WebServer::new(WebServerOptions { head: true, ranges: true }, [("/rose.jpg", image)]);
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let query = format!(
        "SELECT path, image_info(content)['width'] AS width FROM files('http://{}/rose.jpg?sig=hunter2')",
        server.authority()
    );
    let printed = run(tfr_sql().args([&query, "-v", "--shards", "1"]).arg("--out").arg(&out)).success().stderr;
    let manifest = fs::read_to_string(out.join("_manifest.json")).unwrap();
    let records = format!("{:?}", read_shards(&out));
    for shown in [&printed, &manifest, &records] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(manifest.contains("rose.jpg"), "{manifest}");
    assert!(server.requests().iter().any(|(request, _)| request == "GET /rose.jpg?sig=hunter2"));
}
