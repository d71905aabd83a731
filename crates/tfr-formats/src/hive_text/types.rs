//! Hive's types: their DDL, their Arrow types and their encodings in text.

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

use tfr_files::text_of_length;

use super::serdes::HiveSerde;
use crate::error::{Error, ErrorKind};

/// Further separators by nesting level, after those of cells, elements and keys (LazySerDeParameters). By default Hive
/// stops after `\x08`. Control characters that occur in texts are omitted.
const DEEPER_SEPARATORS: [u8; 23] =
    [4, 5, 6, 7, 8, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31];

/// Maximum nesting depth of columns, counted in separators.
const MAX_LEVELS: usize = 3 + DEEPER_SEPARATORS.len();

/// Returns the separators within cells by level, given the first two.
pub(super) fn separators(first: [u8; 2]) -> Vec<u8> {
    first.into_iter().chain(DEEPER_SEPARATORS).collect()
}

/// The columns of a table in Hive's DDL.
///
/// ```
/// use tfr_formats::hive_text::HiveColumns;
///
/// let columns: HiveColumns = "id BIGINT, tags ARRAY<STRING>, price DECIMAL(10,2)".parse()?;
/// assert_eq!(columns.schema().field(1).data_type().to_string(), "List(Utf8)");
/// # Ok::<(), tfr_formats::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HiveColumns(Vec<DeclaredColumn>);

#[derive(Debug, Clone, PartialEq)]
struct DeclaredColumn {
    name: String,
    hive_type: HiveType,
    /// The type as it was written.
    text: String,
}

impl HiveColumns {
    /// Returns the columns as an Arrow schema, all nullable.
    pub fn schema(&self) -> Schema {
        let fields = self.0.iter().map(|column| Field::new(&column.name, column.hive_type.data_type.clone(), true));
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// Returns the columns as types of partition columns, with the lengths of CHAR and VARCHAR.
    pub(crate) fn path_schema(&self) -> Schema {
        let fields = self.0.iter().map(|DeclaredColumn { name, hive_type, .. }| {
            let field = Field::new(name, hive_type.data_type.clone(), true);
            match &hive_type.form {
                Form::Text(Some(MaxChars { count, padded })) => text_of_length(field, *count, *padded),
                _ => field,
            }
        });
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// Whether a column is a CHAR or VARCHAR, whose length SQL's types do not have.
    pub fn has_lengths(&self) -> bool {
        self.0.iter().any(|column| matches!(column.hive_type.form, Form::Text(Some(_))))
    }

    /// Whether a column has a type that cannot be declared in SQL: a map, a union, bytes, a struct as Hive writes it, or one
    /// of these within another.
    pub fn needs_hive(&self) -> bool {
        fn needs(hive_type: &HiveType) -> bool {
            match &hive_type.form {
                Form::Binary | Form::Map(_) | Form::Union(_) => true,
                Form::Struct(fields) => fields.iter().any(needs),
                Form::List(item) => needs(item),
                _ => false,
            }
        }
        // SQL has no colons between the names and the types of fields.
        self.0.iter().any(|column| needs(&column.hive_type) || column.text.contains(':'))
    }

    /// Iterates over the names and the types as they were written.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|column| (column.name.as_str(), column.text.as_str()))
    }

    /// Parses the value of the option `key`.
    pub(crate) fn parse(key: &str, text: &str) -> Result<Self, Error> {
        let wrong = |reason| {
            let expected = format!("columns as Hive declares them, 'id BIGINT, tags ARRAY<STRING>': {reason}");
            ErrorKind::OptionValue { key: key.to_owned(), value: text.to_owned(), expected }
        };
        DdlParser { text, at: 0 }.columns().map(Self).map_err(|reason| wrong(reason).into())
    }

    pub(super) fn get(&self, name: &str) -> Option<&HiveType> {
        self.0.iter().find(|column| column.name == name).map(|column| &column.hive_type)
    }
}

/// A type and the encoding of its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HiveType {
    pub(super) data_type: DataType,
    pub(super) form: Form,
}

/// The encoding of a type's values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Boolean,
    /// Within these bounds.
    Integer(i64, i64),
    Float32,
    Float64,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Text(Option<MaxChars>),
    Binary,
    Date,
    Timestamp(TimeUnit),
    List(Box<HiveType>),
    Map(Box<(HiveType, HiveType)>),
    Struct(Vec<HiveType>),
    /// The index of one of the types, then a value of it.
    Union(Vec<HiveType>),
}

/// Maximum length of a text in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MaxChars {
    pub(super) count: usize,
    /// Whether trailing spaces are removed.
    pub(super) padded: bool,
}

impl HiveType {
    fn new(data_type: DataType, form: Form) -> Self {
        Self { data_type, form }
    }

    /// Returns text of any length.
    pub(super) fn string() -> Self {
        Self::new(DataType::Utf8, Form::Text(None))
    }

    fn text(count: usize, padded: bool) -> Self {
        Self::new(DataType::Utf8, Form::Text(Some(MaxChars { count, padded })))
    }

    fn list(item: Self) -> Self {
        Self::new(DataType::new_list(item.data_type.clone(), true), Form::List(Box::new(item)))
    }

    fn map(key: Self, value: Self) -> Self {
        let fields = [("key", &key, false), ("value", &value, true)]
            .map(|(name, part, nullable)| Field::new(name, part.data_type.clone(), nullable));
        let entries = Field::new("entries", DataType::Struct(Fields::from(fields.to_vec())), false);
        Self::new(DataType::Map(Arc::new(entries), false), Form::Map(Box::new((key, value))))
    }

    fn structure(fields: Vec<(String, Self)>) -> Self {
        let of_arrow = fields.iter().map(|(name, part)| Field::new(name, part.data_type.clone(), true));
        let data_type = DataType::Struct(of_arrow.collect());
        Self::new(data_type, Form::Struct(fields.into_iter().map(|(_, part)| part).collect()))
    }

    /// Returns a struct with the index of the type, `tag`, and a field for each type, `field0` and so on.
    fn union(types: Vec<Self>) -> Self {
        let of_types = types.iter().enumerate();
        let of_types = of_types.map(|(tag, part)| Field::new(format!("field{tag}"), part.data_type.clone(), true));
        let fields = [Field::new("tag", DataType::Int8, true)].into_iter().chain(of_types);
        Self::new(DataType::Struct(fields.collect()), Form::Union(types))
    }

    fn decimal(precision: u8, scale: i8) -> Self {
        Self::new(DataType::Decimal128(precision, scale), Form::Decimal { precision, scale })
    }

    fn timestamp(unit: TimeUnit) -> Self {
        Self::new(DataType::Timestamp(unit, None), Form::Timestamp(unit))
    }

    /// Whether a SerDe has values of the type.
    pub(super) fn is_of(&self, serde: HiveSerde) -> bool {
        match serde {
            HiveSerde::Lazy => true,
            HiveSerde::OpenCsv => matches!(self.form, Form::Text(None)),
            HiveSerde::Json => match &self.form {
                Form::Union(_) => false,
                Form::List(item) => item.is_of(serde),
                Form::Map(entry) => entry.0.is_of(serde) && entry.1.is_of(serde),
                Form::Struct(fields) => fields.iter().all(|field| field.is_of(serde)),
                _ => true,
            },
        }
    }

    fn is_primitive(&self) -> bool {
        !matches!(self.form, Form::List(_) | Form::Map(_) | Form::Struct(_) | Form::Union(_))
    }

    /// Returns the type of a column declared in SQL; `None` if Hive has no such type.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        Self::nested(data_type, 1)
    }

    fn nested(data_type: &DataType, level: usize) -> Option<Self> {
        if level > MAX_LEVELS {
            return None;
        }
        let of_field = |field: &Field, levels: usize| Self::nested(field.data_type(), level + levels);
        let form = match data_type {
            DataType::Boolean => Form::Boolean,
            DataType::Int8 => Form::Integer(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => Form::Integer(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => Form::Integer(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => Form::Integer(i64::MIN, i64::MAX),
            DataType::UInt8 => Form::Integer(0, u8::MAX.into()),
            DataType::UInt16 => Form::Integer(0, u16::MAX.into()),
            DataType::UInt32 => Form::Integer(0, u32::MAX.into()),
            DataType::Float32 => Form::Float32,
            DataType::Float64 => Form::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
                if *scale >= 0 =>
            {
                Form::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Form::Text(None),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Form::Binary,
            DataType::Date32 => Form::Date,
            DataType::Timestamp(unit, None) => Form::Timestamp(*unit),
            DataType::List(item) => Form::List(Box::new(of_field(item, 1)?)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => {
                    let [key, value] = fields.as_ref() else { return None };
                    let key = of_field(key, 2).filter(Self::is_primitive)?;
                    Form::Map(Box::new((key, of_field(value, 2)?)))
                }
                _ => return None,
            },
            DataType::Struct(fields) => {
                Form::Struct(fields.iter().map(|field| of_field(field, 1)).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        Some(Self::new(data_type.clone(), form))
    }
}

impl FromStr for HiveColumns {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse("schema", text)
    }
}

/// Parses Hive's DDL from left to right.
struct DdlParser<'a> {
    text: &'a str,
    at: usize,
}

impl DdlParser<'_> {
    fn columns(&mut self) -> Result<Vec<DeclaredColumn>, String> {
        let mut columns: Vec<DeclaredColumn> = Vec::new();
        loop {
            let name = self.name()?;
            self.takes(":");
            self.rest();
            let start = self.at;
            let hive_type = self.hive_type(1)?;
            let text = self.text[start..self.at].trim_end().to_owned();
            self.comment()?;
            if columns.iter().any(|column| column.name == name) {
                return Err(format!("two columns are named {name:?}"));
            }
            columns.push(DeclaredColumn { name, hive_type, text });
            if self.is_at_end() {
                return Ok(columns);
            }
            self.expect(",")?;
        }
    }

    /// Skips spaces and returns the remaining text.
    fn rest(&mut self) -> &str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn is_at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    fn takes(&mut self, token: &str) -> bool {
        let takes = self.rest().starts_with(token);
        if takes {
            self.at += token.len();
        }
        takes
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.takes(token) {
            true => Ok(()),
            false => Err(self.expected(&format!("{token:?}"))),
        }
    }

    fn expected(&mut self, what: &str) -> String {
        let found: String = self.rest().chars().take(20).collect();
        match found.is_empty() {
            true => format!("expected {what} at its end"),
            false => format!("expected {what} at {found:?}"),
        }
    }

    fn word(&mut self) -> &str {
        let rest = self.rest();
        let len = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'))).unwrap_or(rest.len());
        let start = self.at;
        self.at += len;
        &self.text[start..self.at]
    }

    /// Parses a name, which is in backticks if it has characters other than letters, digits and `_`.
    fn name(&mut self) -> Result<String, String> {
        if !self.takes("`") {
            let name = self.word().to_owned();
            return if name.is_empty() { Err(self.expected("a name")) } else { Ok(name) };
        }
        let mut name = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find('`') else { return Err(self.expected("a closing backtick")) };
            name.push_str(&rest[..end]);
            self.at += end + 1;
            // A doubled backtick is a literal one.
            if !self.text[self.at..].starts_with('`') {
                return Ok(name);
            }
            name.push('`');
            self.at += 1;
        }
    }

    /// Skips `COMMENT '...'`.
    fn comment(&mut self) -> Result<(), String> {
        let start = self.at;
        if !self.word().eq_ignore_ascii_case("comment") {
            self.at = start;
            return Ok(());
        }
        self.expect("'")?;
        loop {
            match self.text[self.at..].find('\'') {
                Some(end) => self.at += end + 1,
                None => return Err(self.expected("a closing quote")),
            }
            // A doubled quote is a literal one.
            if !self.text[self.at..].starts_with('\'') {
                return Ok(());
            }
            self.at += 1;
        }
    }

    /// Parses the numbers in parentheses, if there are any.
    fn numbers(&mut self) -> Result<Vec<usize>, String> {
        let mut numbers = Vec::new();
        if !self.takes("(") {
            return Ok(numbers);
        }
        loop {
            let start = self.at;
            let number = self.word().parse();
            numbers.push(number.map_err(|_| {
                self.at = start;
                self.expected("a number")
            })?);
            if self.takes(")") {
                return Ok(numbers);
            }
            self.expect(",")?;
        }
    }

    fn hive_type(&mut self, level: usize) -> Result<HiveType, String> {
        if level > MAX_LEVELS {
            return Err(format!("columns are nested deeper than the {MAX_LEVELS} separators that there are"));
        }
        self.rest();
        let start = self.at;
        let name = self.word().to_ascii_lowercase();
        let integer = |data_type: DataType, min: i64, max: i64| HiveType::new(data_type, Form::Integer(min, max));
        Ok(match name.as_str() {
            "boolean" => HiveType::new(DataType::Boolean, Form::Boolean),
            "tinyint" => integer(DataType::Int8, i8::MIN.into(), i8::MAX.into()),
            "smallint" => integer(DataType::Int16, i16::MIN.into(), i16::MAX.into()),
            "int" | "integer" => integer(DataType::Int32, i32::MIN.into(), i32::MAX.into()),
            "bigint" => integer(DataType::Int64, i64::MIN, i64::MAX),
            "float" | "real" => HiveType::new(DataType::Float32, Form::Float32),
            "double" => {
                let end = self.at;
                if !self.word().eq_ignore_ascii_case("precision") {
                    self.at = end;
                }
                HiveType::new(DataType::Float64, Form::Float64)
            }
            "string" => HiveType::string(),
            "binary" => HiveType::new(DataType::Binary, Form::Binary),
            "date" => HiveType::new(DataType::Date32, Form::Date),
            "char" | "varchar" => match self.numbers()?[..] {
                [count @ 1..=65535] => HiveType::text(count, name == "char"),
                _ => return Err(format!("expected a length from 1 to 65535, as in {name}(20)")),
            },
            "decimal" | "dec" | "numeric" => match self.numbers()?[..] {
                [] => HiveType::decimal(10, 0),
                [precision @ 1..=38] => HiveType::decimal(precision as u8, 0),
                [precision @ 1..=38, scale] if scale <= precision => HiveType::decimal(precision as u8, scale as i8),
                _ => return Err("expected at most 38 digits, as in decimal(10,2)".to_owned()),
            },
            "timestamp" => match self.numbers()?[..] {
                [0] => HiveType::timestamp(TimeUnit::Second),
                [3] => HiveType::timestamp(TimeUnit::Millisecond),
                [] | [6] => HiveType::timestamp(TimeUnit::Microsecond),
                [9] => HiveType::timestamp(TimeUnit::Nanosecond),
                _ => return Err("expected timestamp with (0), (3), (6), which is the default, or (9)".to_owned()),
            },
            "array" => {
                self.expect("<")?;
                let item = self.hive_type(level + 1)?;
                self.expect(">")?;
                HiveType::list(item)
            }
            "map" => {
                self.expect("<")?;
                self.rest();
                let start = self.at;
                let key = self.hive_type(level + 2)?;
                if !key.is_primitive() {
                    self.at = start;
                    return Err(self.expected("a primitive type"));
                }
                self.expect(",")?;
                let value = self.hive_type(level + 2)?;
                self.expect(">")?;
                HiveType::map(key, value)
            }
            "struct" => {
                self.expect("<")?;
                let mut fields = Vec::new();
                loop {
                    let name = self.name()?;
                    self.takes(":");
                    fields.push((name, self.hive_type(level + 1)?));
                    self.comment()?;
                    if !self.takes(",") {
                        break;
                    }
                }
                self.expect(">")?;
                HiveType::structure(fields)
            }
            "uniontype" => {
                self.expect("<")?;
                let mut types = vec![self.hive_type(level + 1)?];
                while self.takes(",") {
                    types.push(self.hive_type(level + 1)?);
                }
                self.expect(">")?;
                if types.len() > 127 {
                    return Err("expected at most 127 types in a uniontype".to_owned());
                }
                HiveType::union(types)
            }
            _ => {
                self.at = start;
                return Err(self.expected("a type"));
            }
        })
    }
}

#[cfg(test)]
mod tests;
