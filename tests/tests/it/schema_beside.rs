//! A `schema.pbtxt` next to shards that nobody asked for: what cannot be read in it does not block the shards.

use std::fs;

use tfr_tests::{Scratch, run, tfr_sql};

#[test]
fn schema_file_features_without_types_are_inferred() {
    let scratch = Scratch::default();
    let out = scratch.join("t");
    let query = "SELECT * FROM (VALUES (1, 'x', 0.5), (2, 'y', 1.5)) AS t(id, name, score) ORDER BY id";
    run(tfr_sql().arg(query).arg("--out").arg(&out)).success();
    fs::remove_file(out.join("_manifest.json")).unwrap();
    let table = format!("SELECT * FROM '{}' ORDER BY id", out.display());
    // As TensorFlow Data Validation leaves a feature without values, and one of a kind that is not read.
    for (score, problem) in [
        ("feature { name: \"score\" }", "it has no type"),
        ("feature { name: \"score\" type: STRUCT struct_domain {} }", "type STRUCT is not read"),
    ] {
        let text = format!(
            "feature {{ name: \"id\" type: INT shape {{}} }}\n{score}\n\
             feature {{ name: \"name\" type: BYTES string_domain {{}} shape {{}} }}\n\
             feature {{ name: \"gone\" }}\n"
        );
        fs::write(out.join("schema.pbtxt"), text).unwrap();
        let found = run(tfr_sql().args([&table, "--format", "csv"])).success();
        assert_eq!(found.stdout, "id,name,score\n1,x,0.5\n2,y,1.5\n");
        for expected in [
            format!("schema.pbtxt: feature \"score\": {problem}"),
            "schema.pbtxt: feature \"gone\": it has no type".to_owned(),
        ] {
            assert_eq!(found.stderr.matches(&expected).count(), 1, "{expected}: {}", found.stderr);
        }
        // Who names the schema is told what is wrong with it.
        let named = format!("t={},schema={}", out.display(), out.join("schema.pbtxt").display());
        let refused = run(tfr_sql().args(["SELECT * FROM t", "--table", &named])).exits_with(1);
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
}
