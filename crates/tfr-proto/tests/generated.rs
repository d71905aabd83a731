//! The checked-in code and descriptors are what prost-build and protox make of `proto/`.

use std::{env, error::Error, fs, path::Path};

use prost::Message;
use prost_build::{Config, Module};
use protox::Compiler;

/// What these import is generated with them.
const ROOTS: [&str; 8] = [
    // What TensorFlow Metadata's annotations hold in an Any.
    "google/protobuf/struct.proto",
    "tensorflow/core/example/example.proto",
    "tensorflow/core/framework/tensor.proto",
    "tensorflow/core/protobuf/snapshot.proto",
    "tensorflow/core/protobuf/struct.proto",
    "tensorflow_metadata/proto/v0/schema.proto",
    "tensorflow_metadata/proto/v0/statistics.proto",
    "tensorflow_serving/apis/input.proto",
];

/// Its messages are those of prost-types.
const WELL_KNOWN: &str = "google.protobuf";

#[test]
fn generated_code_is_current() -> Result<(), Box<dyn Error>> {
    let descriptors = compiled()?.file_descriptor_set();
    let ours = descriptors.file.into_iter().filter(|file| file.package() != WELL_KNOWN);
    let requests = ours.map(|file| (Module::from_protobuf_package_name(file.package()), file)).collect();
    let modules = Config::new().btree_map(["."]).disable_comments(["."]).generate(requests)?;

    for (module, code) in modules {
        check(&module.to_file_name_or("_"), code.as_bytes())?;
    }
    Ok(())
}

#[test]
fn descriptors_are_current() -> Result<(), Box<dyn Error>> {
    check("descriptors.bin", &compiled()?.file_descriptor_set().encode_to_vec())
}

fn compiled() -> Result<Compiler, protox::Error> {
    let mut compiler = Compiler::new([Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto")])?;
    compiler.include_imports(true).include_source_info(false).open_files(ROOTS)?;
    Ok(compiler)
}

fn check(name: &str, expected: &[u8]) -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated").join(name);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, expected)?;
    }
    let checked_in = fs::read(&path).unwrap_or_default();
    assert!(
        checked_in == expected,
        "{} is not what proto/ generates: run `UPDATE=1 cargo test -p tfr-proto` and commit the result",
        path.display()
    );
    Ok(())
}
