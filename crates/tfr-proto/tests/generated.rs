//! The checked-in code is what prost-build makes of `proto/`.

use std::{env, error::Error, fs, path::Path};

use prost_build::{Config, Module};

/// What these import is generated with them.
const ROOTS: [&str; 2] = ["tensorflow/core/example/example.proto", "tensorflow/core/framework/tensor.proto"];

#[test]
fn generated_code_is_current() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile(ROOTS, [here.join("../../proto")])?;
    let requests =
        descriptors.file.into_iter().map(|file| (Module::from_protobuf_package_name(file.package()), file)).collect();
    let modules = Config::new().btree_map(["."]).disable_comments(["."]).generate(requests)?;

    for (module, code) in modules {
        let path = here.join("src/generated").join(module.to_file_name_or("_"));
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &code)?;
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == code,
            "{} is not what proto/ generates: run `UPDATE=1 cargo test -p tfr-proto` and commit the result",
            path.display()
        );
    }
    Ok(())
}
