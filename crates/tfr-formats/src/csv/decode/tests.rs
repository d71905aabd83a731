//! Records in every dialect, in pieces of every size.

use super::*;

fn rows(options: &CsvOptions, text: &str, piece: usize) -> Result<Vec<(u64, Vec<String>)>> {
    let mut records = Records::new("f.csv".into(), &Arc::new(options.clone()), None, Start::default());
    let mut rows = Vec::new();
    let mut take = |records: &mut Records| -> Result<()> {
        let cells = records.cells()?;
        for row in cells.rows() {
            let cells = (0..cells.width()).map(|column| cells.get(row, column).to_owned()).collect();
            rows.push((records.lines[row], cells));
        }
        records.clear();
        Ok(())
    };
    for mut input in text.as_bytes().chunks(piece) {
        while !input.is_empty() {
            let read = records.read(input, 2)?;
            input = &input[read..];
            if records.is_full(2) {
                take(&mut records)?;
            }
        }
    }
    records.finish()?;
    take(&mut records)?;
    Ok(rows)
}

#[test]
fn records_and_their_lines_in_pieces_of_any_size() -> Result<()> {
    let text = "a,b\r\n\n1,\"x\ny\"\n\"\"\"\",\"\"\n\n3,é\r\n,";
    let expected = [(1, ["a", "b"]), (3, ["1", "x\ny"]), (5, ["\"", ""]), (7, ["3", "é"]), (8, ["", ""])]
        .map(|(line, cells)| (line, cells.map(str::to_owned).to_vec()));
    for piece in 1..text.len() {
        assert_eq!(rows(&CsvOptions::default(), text, piece)?, expected, "pieces of {piece}");
    }
    Ok(())
}

#[test]
fn blank_line_is_an_empty_cell_in_single_column_files() -> Result<()> {
    let options = CsvOptions { comment: Some(b'#'), ..CsvOptions::default() };
    let text = "\n#\n\"\n\"\r\n\r\n\n#x\nb\n\n";
    let expected =
        [(1, ""), (3, "\n"), (5, ""), (6, ""), (8, "b"), (9, "")].map(|(line, cell)| (line, vec![cell.to_owned()]));
    for piece in 1..text.len() {
        assert_eq!(rows(&options, text, piece)?, expected, "pieces of {piece}");
    }
    Ok(())
}

#[test]
fn dialects() -> Result<()> {
    let options = CsvOptions { delimiter: Some(b'|'), quote: None, terminator: Some(b';'), ..CsvOptions::default() };
    let found = rows(&options, "a|\"b;1|2\n", 3)?;
    assert_eq!(found.into_iter().map(|row| row.1).collect::<Vec<_>>(), [["a", "\"b"], ["1", "2\n"]]);
    let options = CsvOptions { escape: Some(b'\\'), ..CsvOptions::default() };
    assert_eq!(rows(&options, "\"a\\\"b\",c\n", 3)?[0].1, ["a\"b", "c"]);
    Ok(())
}

#[test]
fn csv_errors_report_the_line() {
    for (text, message) in [
        ("a,b\n1,\"x\n\"\n1\n", "f.csv: line 4: expected 2 cells, found 1"),
        ("a,b\n1,2,3\n", "f.csv: line 2: expected 2 cells, found 3"),
        ("a,b\n1,2,3,4,5\n", "f.csv: line 2: expected 2 cells, found more than 3"),
        ("a,b\n1,2\n3,\"4\n5,6\n", "f.csv: line 3: a quoted cell does not end"),
        ("a,b\n1,2\n3,\"4\"\"", "f.csv: line 3: a quoted cell does not end"),
    ] {
        for piece in [1, 2, 100] {
            let found = rows(&CsvOptions::default(), text, piece).expect_err(text).to_string();
            assert_eq!(found, message, "pieces of {piece}");
        }
    }
}

#[test]
fn csv_invalid_utf8_reports_line_and_cell() {
    let mut records = Records::new("f.csv".into(), &Arc::default(), None, Start::default());
    let text = b"a,b\n1,\xc3\n\xa9,2\n";
    assert_eq!(records.read(text, 10).ok(), Some(text.len()));
    let message = records.cells().err().map(|error| error.to_string());
    assert_eq!(message.as_deref(), Some("f.csv: line 2, cell 2: not UTF-8"));
}

#[test]
fn csv_distinguishes_quoted_empty_cells_in_any_pieces() -> Result<()> {
    let options = CsvOptions { escape: Some(b'\\'), comment: Some(b'#'), ..CsvOptions::default() };
    let text = "\"\",,\"a\\\",\"\"b\"\r\n#\"\",\n,\"\",\"\"\"\"\r\n\n\"x\"\"\",\"\"\"\",\"\"y\r\n\"\",\"\"";
    let text = format!("{text},");
    let expected = [[false, true, false], [true, false, false], [false, false, false], [false, false, true]];
    for piece in 1..text.len() {
        let mut records = Records::new("f.csv".into(), &Arc::new(options.clone()), None, Start::default());
        for piece in text.as_bytes().chunks(piece) {
            assert_eq!(records.read(piece, 10)?, piece.len());
        }
        records.finish()?;
        let cells = records.cells()?;
        let found: Vec<_> = cells.rows().map(|row| [0, 1, 2].map(|column| cells.is_bare(row, column))).collect();
        assert_eq!(found, expected, "pieces of {piece}");
    }
    Ok(())
}

/// No more than the limit is buffered of a file of any length.
#[test]
fn a_quote_without_an_end_takes_bounded_memory() {
    let options = Arc::new(CsvOptions::default());
    let mut records = Records::new("f.csv".into(), &options, None, Start::default());
    let piece = "1,x\n".repeat(1 << 18);
    let mut fed = 0;
    let mut result = records.read(b"a,b\n\"", 10);
    while result.is_ok() && fed < 1 << 30 {
        result = records.read(piece.as_bytes(), 10);
        fed += piece.len();
    }
    let message = result.expect_err("too long").to_string();
    assert_eq!(message, "f.csv: line 2: the record is longer than 16777216 bytes, as if a quote did not end");
    assert!(fed <= options.record_limit + 2 * piece.len(), "{fed}");
    assert!(records.text.capacity() <= 3 * options.record_limit, "{}", records.text.capacity());
}
