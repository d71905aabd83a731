use proptest::prelude::*;

use super::super::tape::{Node, Position};
use super::*;
use crate::names::ColumnNames;

type Outcome = Result<(Vec<Node>, Vec<Position>, String, Vec<u32>, bool), String>;

/// Reads a text in pieces of this size.
fn outcome(text: &[u8], size: usize, keys: Option<&Arc<Keys>>) -> Outcome {
    let mut rows = JsonObjects::new("t".into(), keys.cloned(), None);
    let mut read = || {
        for mut piece in text.chunks(size) {
            while !piece.is_empty() {
                piece = &piece[rows.read(piece, usize::MAX)?..];
            }
        }
        rows.finish()
    };
    read().map_err(|error| error.to_string())?;
    let has_row_a_line = rows.has_row_a_line();
    let Tape { nodes, positions, text, rows } = rows.parser.tape;
    Ok((nodes, positions, text, rows, has_row_a_line))
}

fn any_rows() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("null"),
        Just("true"),
        Just("fals"),
        Just("-12.5e+3"),
        Just("NaN"),
        Just("-Infinity"),
        Just("Infinit"),
        Just("0"),
        Just("01"),
        Just("\"\""),
        Just("\"k\""),
        Just("\"a long text, with é and 🦀 in it\""),
        Just("\"\\u00e9\\ud83e\\udd80\\n\\/\""),
        Just("\"\\ud83e\""),
        Just("\"\\u+12f\""),
        Just("[1, [],\t{}]"),
        Just("{\"k\": {\"é\": [\"x\\\\\"]}, \"z\" : 1 }"),
        Just("[1,\n2]"),
        Just("[,]"),
    ];
    let key = prop_oneof![Just("k"), Just("a"), Just("é"), Just("other"), Just("\\u006b")];
    let entries = proptest::collection::vec((key, value), 0..5);
    let row = entries.prop_map(|entries| {
        let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", entries.join(", "))
    });
    let end =
        prop_oneof![8 => Just("\n"), 2 => Just("\r\n"), 1 => Just(" "), 1 => Just(""), 1 => Just(","), 1 => Just("}")];
    let rows = proptest::collection::vec((row, end), 0..6);
    (any::<bool>(), rows).prop_map(|(is_array, rows)| match is_array {
        true => format!("[{}]", rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>().join(",\n")),
        false => rows.into_iter().map(|(row, end)| format!("{row}{end}")).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A byte that is not UTF-8 may be anywhere.
    #[test]
    fn json_rows_do_not_depend_on_the_pieces(
        text in any_rows(), damaged in any::<prop::sample::Index>(), is_damaged in any::<bool>(),
        size in 1..40_usize, open in any::<bool>(), known in any::<bool>(),
    ) {
        let keys = Arc::new(Keys::new(&["k", "a", "é"], &[2, 0], vec!["other".to_owned()], open, ColumnNames::default()));
        let keys = known.then_some(&keys);
        let mut text = text.into_bytes();
        if is_damaged && !text.is_empty() {
            let at = damaged.index(text.len());
            text[at] = 0xff;
        }
        prop_assert_eq!(outcome(&text, size, keys), outcome(&text, text.len().max(1), keys));
    }
}

#[test]
fn json_row_over_the_limit_is_rejected_before_its_end() {
    let bounds = ReadBounds { value: 4000, ..ReadBounds::default() };
    let read = |row: &str| {
        let mut rows = JsonObjects::new("t".into(), None, None).within(bounds);
        let text = format!("{{}}\n{row}");
        let mut pieces = text.as_bytes().chunks(100).enumerate();
        let error = pieces.find_map(|(index, piece)| Some((index, rows.read(piece, 100).err()?)));
        error.map(|(index, error)| (index, error.to_string()))
    };
    let too_long = "t: line 2: the record takes more than 1000 bytes, a quarter of the memory limit".to_owned();
    let text = |len: usize| format!("{{\"a\": \"{}\"}}", "x".repeat(len));
    assert_eq!(read(&text(800)), None);
    assert_eq!(read(&text(2000)), Some((10, too_long.clone())));
    // Each value takes 20 bytes on the tape.
    assert_eq!(read(&format!("{{\"a\": [{}1]}}", "1,".repeat(100))), Some((0, too_long)));
    // An error before the limit comes first.
    let (b, c) = ("x".repeat(150), "x".repeat(2000));
    let (index, error) = read(&format!("{{\"b\": \"{b}\", \"a\": nul, \"c\": \"{c}")).expect("an error");
    assert_eq!((index, error.as_str()), (10, "t: line 2, character 169: expected null, found ,"));
}
