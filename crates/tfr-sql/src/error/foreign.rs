//! Equivalents for functions and syntax of Spark, Hive and Presto, for error hints.
//!
//! The texts of the engine that are matched here were read from DataFusion 55.2.

/// A function that the engine lacks, or provides under another name.
struct ForeignFunction {
    /// Its names in other engines, in lower case.
    names: &'static [&'static str],
    /// The equivalent expression, over columns named by their types: `s` and `t` are text, `n` a whole number, `x` a
    /// float, `d` a date, `ts` a timestamp, `list` a list of whole numbers, `m` a map from text, `b` bytes, `c` a
    /// condition. Empty if there is none.
    instead: &'static str,
    /// A further remark, or an empty string.
    note: &'static str,
}

const fn function(names: &'static [&'static str], instead: &'static str, note: &'static str) -> ForeignFunction {
    ForeignFunction { names, instead, note }
}

/// Each `instead` is run by a test.
const FUNCTIONS: &[ForeignFunction] = &[
    // Expanding lists and maps to rows.
    function(
        &["explode", "explode_outer", "inline"],
        "unnest(list)",
        "in the SELECT list; a row with an empty list or NULL yields no row",
    ),
    function(
        &["posexplode", "posexplode_outer"],
        "unnest(range(0, array_length(list))) AS pos, unnest(list) AS item",
        "in the SELECT list",
    ),
    function(&["stack"], "unnest([n, n + 1])", "in the SELECT list, once for each column"),
    // Aggregates.
    function(
        &["collect_list", "array_distinct_agg"],
        "array_agg(n) FILTER (WHERE n IS NOT NULL)",
        "without FILTER it keeps nulls",
    ),
    function(
        &["collect_set", "set_agg"],
        "array_agg(DISTINCT n) FILTER (WHERE n IS NOT NULL)",
        "without FILTER it keeps a null",
    ),
    function(&["approx_count_distinct", "ndv"], "approx_distinct(n)", ""),
    function(&["percentile_approx", "approx_percentile"], "approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", ""),
    function(&["percentile"], "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", ""),
    function(&["count_if", "countif"], "count(*) FILTER (WHERE c)", ""),
    function(&["sum_if", "sumif"], "sum(x) FILTER (WHERE c)", ""),
    function(&["count_distinct"], "count(DISTINCT n)", ""),
    function(&["average"], "avg(x)", ""),
    function(&["every", "forall_agg"], "bool_and(c)", ""),
    function(&["some", "any"], "bool_or(c)", ""),
    function(&["max_by", "argmax", "arg_max"], "last_value(s ORDER BY n NULLS FIRST)", ""),
    function(&["min_by", "argmin", "arg_min"], "first_value(s ORDER BY n NULLS LAST)", ""),
    function(&["first", "any_value", "arbitrary"], "first_value(s ORDER BY n)", ""),
    function(&["last"], "last_value(s ORDER BY n)", ""),
    function(&["group_concat", "listagg"], "string_agg(s, ',')", ""),
    function(&["std", "stdev"], "stddev(x)", ""),
    function(&["variance"], "var_samp(x)", ""),
    function(&["geometric_mean"], "exp(avg(ln(x)))", ""),
    function(&["mode"], "", "count the values with GROUP BY and take the first with ORDER BY count(*) DESC LIMIT 1"),
    function(
        &["skewness", "kurtosis", "histogram", "histogram_numeric", "map_agg", "multimap_agg"],
        "",
        "this aggregate does not exist",
    ),
    function(
        &["grouping_id", "grouping__id"],
        "",
        "combine the grouping() of each column: 2 * grouping(a) + grouping(b)",
    ),
    // Conditions and nulls.
    function(&["if", "iff", "iif", "ifelse", "if_else"], "CASE WHEN c THEN 1 ELSE 0 END", ""),
    function(&["isnull", "is_null"], "n IS NULL", ""),
    function(&["isnotnull", "is_not_null"], "n IS NOT NULL", ""),
    function(&["equal_null"], "n IS NOT DISTINCT FROM 7", ""),
    function(&["assert_true"], "", "filter with WHERE; a condition cannot end a query"),
    function(&["try_divide", "safe_divide"], "x / nullif(n, 0)", ""),
    function(&["try_cast"], "TRY_CAST(s AS BIGINT)", ""),
    function(&["zeroifnull"], "coalesce(n, 0)", ""),
    function(&["is_nan"], "isnan(x)", ""),
    // Text.
    function(&["split"], "string_to_array(s, ',')", "the delimiter is plain text, not a pattern"),
    function(&["regexp_extract"], "regexp_match(s, '([a-z]+),')[1]", "[1] is the first group; NULL if nothing matches"),
    function(&["rlike", "regexp", "regexp_matches"], "s ~ 'b+'", ""),
    function(&["startswith"], "starts_with(s, 'a')", ""),
    function(&["endswith"], "ends_with(s, 'c')", ""),
    function(&["locate", "charindex", "indexof"], "strpos(s, 'b')", "the text comes first, what is looked for second"),
    function(&["lcase", "tolower"], "lower(s)", ""),
    function(&["ucase", "toupper", "upcase"], "upper(s)", ""),
    function(&["len", "strlen", "string_length"], "length(s)", ""),
    function(&["substring_index_of"], "strpos(s, 'b')", ""),
    function(&["string", "str", "to_string", "tostring"], "CAST(n AS VARCHAR)", ""),
    function(&["format_number"], "", "CAST(round(x, 2) AS VARCHAR) has the digits without separators"),
    function(&["format_string", "printf"], "concat(s, ': ', n)", "lpad(s, 10, '0') fills up to a width"),
    function(
        &["url_decode", "url_encode", "parse_url", "url_extract_host"],
        "regexp_match(s, '://([^/:]+)')[1]",
        "takes the host of a URL; there is no function for URLs",
    ),
    function(&["soundex", "sentences", "elt", "xpath"], "", "this function does not exist"),
    // Lists.
    function(&["array", "list_value"], "[n, n + 1]", ""),
    function(&["size", "array_size"], "array_length(list)", "of a map cardinality(m)"),
    function(&["sort_array"], "array_sort(list)", "array_sort(list, 'DESC') from the largest on"),
    function(
        &["slice"],
        "array_slice(list, 2, 3)",
        "from the second to the third; Spark and Presto count from a start",
    ),
    function(&["sequence", "generate_array"], "generate_series(1, n)", ""),
    function(
        &["array_insert", "try_element_at", "get"],
        "list[1]",
        "counted from 1; array_concat([n], list) puts values in",
    ),
    function(&["shuffle"], "", "the order of a list cannot be made random; --shuffle shuffles rows"),
    function(
        &[
            "transform",
            "filter",
            "aggregate",
            "reduce",
            "exists",
            "forall",
            "zip_with",
            "any_match",
            "all_match",
            "none_match",
        ],
        "",
        "functions that take a lambda are not supported: unnest(list) makes a row of each item, and array_agg a list of rows",
    ),
    // Maps and structs.
    function(&["map_from_arrays"], "map(['a', 'b'], [n, n + 1])", ""),
    function(&["map_from_entries"], "map(['a', 'b'], [n, n + 1])", "of a list of keys and a list of values"),
    function(&["map_contains_key"], "array_has(map_keys(m), 'k')", ""),
    function(
        &["map_concat"],
        "map(array_concat(map_keys(m), ['l']), array_concat(map_values(m), [n]))",
        "keys must differ",
    ),
    function(
        &["map_filter", "transform_keys", "transform_values", "map_zip_with"],
        "",
        "unnest(map_entries(m)) makes a row of each entry, of which map(array_agg(key), array_agg(value)) makes a map again",
    ),
    function(&["str_to_map"], "map([split_part(s, ':', 1)], [split_part(s, ':', 2)])", "for one entry"),
    function(&["struct_pack"], "named_struct('a', n, 'b', s)", "or {a: n, b: s}"),
    function(&["struct_extract"], "named_struct('a', n)['a']", ""),
    // JSON.
    function(
        &["json_extract_scalar", "json_value", "json_get", "json_get_str", "json_tuple", "json_as_text"],
        "get_json_object(s, '$.a')",
        "for one value",
    ),
    function(&["json_query", "json_parse"], "", "json_extract(s, '$.a') returns one value, as JSON"),
    function(
        &["from_json", "schema_of_json", "json_array_length", "json_object_keys"],
        "get_json_object(s, '$.a')",
        "for one value; for structs and lists write the column to a .jsonl file, a line a row, and query that as a table",
    ),
    function(&["to_json", "json_format", "json_object"], "", "--out NAME.jsonl writes structs, lists and maps as JSON"),
    // Dates and times.
    function(&["year"], "date_part('year', d)", ""),
    function(&["quarter"], "date_part('quarter', d)", ""),
    function(&["month"], "date_part('month', d)", ""),
    function(&["day", "dayofmonth", "day_of_month"], "date_part('day', d)", ""),
    function(&["hour"], "date_part('hour', ts)", ""),
    function(&["minute"], "date_part('minute', ts)", ""),
    function(&["second"], "CAST(date_part('second', ts) AS INT)", ""),
    function(&["dayofyear", "day_of_year", "doy"], "date_part('doy', d)", ""),
    function(&["weekofyear", "week_of_year", "week"], "date_part('week', d)", ""),
    function(&["dayofweek"], "date_part('dow', d) + 1", "1 is Sunday, as in Spark"),
    function(&["weekday"], "date_part('isodow', d) - 1", "0 is Monday, as in Spark"),
    function(&["day_of_week", "dow"], "date_part('isodow', d)", "1 is Monday, as in Presto"),
    function(&["year_of_week", "yow", "yearofweek"], "CAST(to_char(d, '%G') AS INT)", ""),
    function(
        &["date_add", "dateadd"],
        "d + INTERVAL '3 days'",
        "for days in a column: CAST(CAST(d AS INT) + n AS DATE)",
    ),
    function(&["date_sub"], "d - INTERVAL '3 days'", "for days in a column: CAST(CAST(d AS INT) - n AS DATE)"),
    function(&["datediff"], "d - DATE '2024-03-01'", "whole days, of columns of type DATE"),
    function(&["date_diff", "timestampdiff"], "d - DATE '2024-03-01'", "whole days; of seconds date_part('epoch', ts)"),
    function(&["timestampadd"], "ts + INTERVAL '3 hours'", ""),
    function(&["add_months"], "d + INTERVAL '2 months'", ""),
    function(
        &["months_between"],
        "(date_part('year', d) - 2020) * 12 + date_part('month', d) - 1",
        "whole months, here since 2020-01",
    ),
    function(
        &["last_day", "last_day_of_month"],
        "CAST(date_trunc('month', d) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
        "",
    ),
    function(
        &["next_day"],
        "d + INTERVAL '7 days' - CAST(concat(date_part('isodow', d) - 1, ' days') AS INTERVAL)",
        "the next Monday",
    ),
    function(
        &["unix_timestamp", "to_unix_timestamp", "epoch"],
        "to_unixtime(ts)",
        "for text: to_unixtime('2024-03-15 10:20:30', '%Y-%m-%d %H:%M:%S')",
    ),
    function(&["unix_date", "days"], "CAST(d AS INT)", ""),
    function(&["date_from_unix_date"], "CAST(CAST(n AS INT) AS DATE)", ""),
    function(&["timestamp_seconds"], "to_timestamp_seconds(n)", ""),
    function(&["timestamp_millis"], "to_timestamp_millis(n)", ""),
    function(&["timestamp_micros"], "to_timestamp_micros(n)", ""),
    function(
        &["unix_millis", "unix_micros", "unix_seconds", "to_millis"],
        "CAST(date_part('epoch', ts) * 1000 AS BIGINT)",
        "milliseconds since 1970",
    ),
    function(&["make_timestamp"], "to_timestamp('2024-03-15 10:20:30')", ""),
    function(&["from_utc_timestamp"], "to_local_time(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Oslo')", ""),
    function(&["to_utc_timestamp"], "to_local_time(ts AT TIME ZONE 'Europe/Oslo' AT TIME ZONE 'UTC')", ""),
    function(
        &["date_parse", "parse_datetime", "str_to_date", "from_iso8601_timestamp"],
        "to_timestamp('15.03.2024 10:20', '%d.%m.%Y %H:%M')",
        "formats are those of strftime",
    ),
    function(&["from_iso8601_date"], "to_date('2024-03-15')", ""),
    function(
        &["format_datetime", "strftime", "to_iso8601"],
        "to_char(ts, '%Y-%m-%dT%H:%M:%S')",
        "formats are those of strftime",
    ),
    function(&["date"], "CAST(ts AS DATE)", ""),
    function(&["timestamp"], "CAST(d AS TIMESTAMP)", ""),
    function(&["curdate"], "current_date()", ""),
    function(&["getdate", "sysdate"], "now()", ""),
    // Numbers and bytes.
    function(&["int", "integer"], "CAST(x AS INT)", ""),
    function(&["bigint", "to_number"], "CAST(x AS BIGINT)", ""),
    function(&["double"], "CAST(n AS DOUBLE)", ""),
    function(&["float"], "CAST(n AS REAL)", ""),
    function(&["tinyint", "smallint"], "CAST(n AS SMALLINT)", ""),
    function(&["boolean"], "CAST(n AS BOOLEAN)", ""),
    function(&["binary", "to_utf8", "to_binary"], "CAST(s AS BYTEA)", ""),
    function(&["from_utf8"], "CAST(b AS VARCHAR)", ""),
    function(&["try_to_number"], "TRY_CAST(s AS DOUBLE)", ""),
    function(&["mod", "pmod"], "n % 3", "its sign is that of n; (n % 3 + 3) % 3 is never negative"),
    function(&["ceiling"], "ceil(x)", ""),
    function(&["truncate"], "trunc(x, 1)", ""),
    function(&["rint", "bround"], "round(x)", "halves are rounded away from zero"),
    function(&["sign"], "signum(x)", ""),
    function(&["log1p"], "ln(1 + x)", ""),
    function(&["expm1"], "exp(x) - 1", ""),
    function(&["hypot"], "sqrt(x * x + n * n)", ""),
    function(&["shiftleft"], "n << 2", ""),
    function(&["shiftright"], "n >> 2", ""),
    function(&["bit_count", "bin", "conv", "width_bucket"], "", "this function does not exist"),
    function(&["rand", "randn"], "random()", "uniform between 0 and 1, different in each run"),
    function(&["hex"], "upper(encode(b, 'hex'))", "of a number upper(to_hex(n))"),
    function(&["unhex", "from_hex"], "decode('6162', 'hex')", ""),
    function(&["base64", "to_base64"], "encode(b, 'base64')", "without = at the end"),
    function(&["unbase64", "from_base64"], "decode('YWI', 'base64')", "without = at the end, or with it"),
    function(&["sha2"], "encode(sha256(s), 'hex')", "or sha224, sha384, sha512"),
    function(
        &["sha", "sha1", "crc32", "hash", "xxhash64", "murmur_hash3"],
        "md5(s)",
        "there is no function for this hash; others give other values",
    ),
    // Rows.
    function(&["monotonically_increasing_id"], "row_number() OVER () - 1", ""),
    function(&["row_number", "rownum", "row_num"], "row_number() OVER (ORDER BY n)", ""),
    function(&["rank"], "rank() OVER (ORDER BY n)", ""),
    function(&["dense_rank"], "dense_rank() OVER (ORDER BY n)", ""),
    function(&["lag"], "lag(n) OVER (ORDER BY n)", ""),
    function(&["lead"], "lead(n) OVER (ORDER BY n)", ""),
    function(&["ntile"], "ntile(4) OVER (ORDER BY n)", ""),
    function(&["cume_dist"], "cume_dist() OVER (ORDER BY n)", ""),
    function(&["percent_rank"], "percent_rank() OVER (ORDER BY n)", ""),
    function(&["spark_partition_id"], "", "rows do not know their partition"),
    function(&["input_file_block_start", "input_file_block_length"], "", "rows do not know their block"),
    function(&["typeof"], "arrow_typeof(n)", ""),
];

/// Returns the equivalent of another engine's function.
pub(super) fn function_hint(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let found = FUNCTIONS.iter().find(|function| function.names.contains(&name.as_str()))?;
    Some(match (found.instead, found.note) {
        ("", note) => note.to_owned(),
        (instead, "") => format!("write {instead}"),
        (instead, note) => format!("write {instead}: {note}"),
    })
}

/// Calls that match no signature: the start of the call in the engine's message, and the equivalent.
const CALLS: &[(&str, &str)] = &[
    ("date_trunc(Timestamp", "the unit comes first: date_trunc('month', ts)"),
    ("date_trunc(Date", "the unit comes first: date_trunc('month', d)"),
    ("trunc(Timestamp", "write date_trunc('month', ts)"),
    ("trunc(Date", "write CAST(date_trunc('month', d) AS DATE)"),
    ("map_extract(List", "write list[1] for an item of a list, counted from 1"),
    ("decode(Int", "write CASE n WHEN 1 THEN 'one' ELSE 'other' END"),
];

/// Returns the equivalent of a call that matches no signature.
pub(super) fn call_hint(call: &str) -> Option<String> {
    let call = call.trim_start_matches('\'');
    CALLS.iter().find(|(start, _)| call.starts_with(start)).map(|(_, hint)| (*hint).to_owned())
}

/// For times that do not fit nanoseconds.
const FAR_TIME: &str =
    "nanoseconds hold the years 1678 to 2261, TIMESTAMP(6) those from 1 to 9999: write CAST(x AS TIMESTAMP(6))";

/// Messages that contain both texts, and the probable cause.
const MESSAGES: &[(&str, &str, &str)] = &[
    (
        "input_file_name() is source dependent",
        "evaluated",
        "call it where the table is read: SELECT ... FROM (SELECT *, input_file_name() AS file FROM t)",
    ),
    ("using format '", "yy", "formats are those of strftime: '%Y-%m-%d %H:%M:%S'"),
    ("UNION queries have different number of columns", "", "each SELECT must return as many columns as the first one"),
    (
        "Cannot coerce arithmetic expression",
        "Utf8",
        "a text is no number: CAST(s AS DOUBLE) reads one, and s || t joins two texts",
    ),
    ("Cannot cast", "to Timestamp(ns)", FAR_TIME),
    ("Overflow converting", "to Nanosecond", FAR_TIME),
    ("can be represented as nanoseconds", "", FAR_TIME),
    (
        "Inconsistent types in ScalarValue",
        "Timestamp",
        "write all times of the list with one type, as in TIMESTAMP(6) '2024-01-01'",
    ),
    ("Cannot cast string '", "to value of", "TRY_CAST(s AS ...) returns NULL for such a text"),
];

/// Returns the probable cause of a message.
pub(super) fn message_hint(text: &str) -> Option<String> {
    let found = MESSAGES.iter().find(|(first, second, _)| text.contains(first) && text.contains(second))?;
    Some(found.2.to_owned())
}

/// Syntax: a part of the engine's message, the message to show instead, and the equivalent.
const SYNTAX: &[(&str, &str, &str)] = &[
    (
        "OuterReferenceColumn",
        "a lateral join of this form",
        "for UNNEST of a column write SELECT n, unnest(list) AS item FROM t",
    ),
    ("COUNT DISTINCT with multiple arguments", "count(DISTINCT a, b)", "write count(DISTINCT struct(n, s))"),
];

/// The types to choose from, where another engine has more.
pub(super) const TYPES: &str =
    "types are BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(10, 2), VARCHAR, BYTEA, DATE, TIMESTAMP and INTERVAL";

/// Returns the message and the hint for another engine's syntax that is not supported.
pub(super) fn syntax_hint(text: &str) -> Option<(String, String)> {
    let found = SYNTAX.iter().find(|(part, _, _)| text.contains(part))?;
    Some((format!("not supported: {}", found.1), found.2.to_owned()))
}

#[cfg(test)]
mod tests;
