//! What DuckDB 2.0 reads from the Parquet files of `tests/data/drift` with `union_by_name=true`, and the rows that pass
//! filters there.

/// Two files that differ in the type of the column `v`.
pub struct Topic {
    pub name: &'static str,
    /// The columns of `rows`.
    pub columns: &'static str,
    /// The rows with ids from 1 on.
    pub rows: [&'static str; 8],
    /// Filters, and the ids of the rows that pass.
    pub filters: &'static [(&'static str, &'static [i64])],
}

pub const TOPICS: &[Topic] = &[
    Topic {
        name: "struct",
        columns: "v['a'], v['b'], v['c']",
        rows: [
            "1|x|NULL",
            "NULL|NULL|NULL",
            "NULL|y|NULL",
            "4|NULL|NULL",
            "1099511627776|z|0.5",
            "NULL|NULL|NULL",
            "7|w|NULL",
            "NULL|NULL|1.5",
        ],
        filters: &[
            ("v['c'] IS NULL", &[1, 2, 3, 4, 6, 7]),
            ("v['c'] > 0.1", &[5, 8]),
            ("v['a'] > 3", &[4, 5, 7]),
            ("v['b'] = 'x'", &[1]),
            ("v IS NULL", &[2, 6]),
            ("v['a'] IS NULL", &[2, 3, 6, 8]),
            ("v['a'] = 1099511627776", &[5]),
            ("v['b'] IS NOT NULL AND v['c'] IS NULL", &[1, 3, 7]),
        ],
    },
    Topic {
        name: "list",
        columns: "array_length(v), v[1]['a'], v[1]['b'], v[1]['c']",
        rows: [
            "1|1|x|NULL",
            "NULL|NULL|NULL|NULL",
            "0|NULL|NULL|NULL",
            "2|NULL|NULL|NULL",
            "1|1099511627776|z|0.5",
            "NULL|NULL|NULL|NULL",
            "0|NULL|NULL|NULL",
            "1|7|w|NULL",
        ],
        filters: &[("v IS NULL", &[2, 6]), ("v[1]['a'] > 3", &[5, 8]), ("v[1]['c'] IS NULL", &[1, 2, 3, 4, 6, 7, 8])],
    },
    Topic {
        name: "map",
        columns: "v['k']['a'], v['l']['b'], v['k']['c']",
        rows: [
            "1|NULL|NULL",
            "NULL|NULL|NULL",
            "NULL|NULL|NULL",
            "NULL|NULL|NULL",
            "1099511627776|NULL|0.5",
            "NULL|NULL|NULL",
            "NULL|NULL|NULL",
            "NULL|w|NULL",
        ],
        filters: &[("v IS NULL", &[2, 6])],
    },
    Topic {
        name: "int",
        columns: "v",
        rows: ["1", "NULL", "-3", "4", "1099511627776", "NULL", "-1099511627776", "8"],
        filters: &[
            ("v > 3", &[4, 5, 8]),
            ("v = 1099511627776", &[5]),
            ("v < 0", &[3, 7]),
            ("v IS NULL", &[2, 6]),
            ("v IN (1, 8)", &[1, 8]),
            ("v > 3000000000", &[5]),
            ("v <> 4", &[1, 3, 5, 7, 8]),
            ("v BETWEEN -5 AND 5", &[1, 3, 4]),
        ],
    },
    Topic {
        name: "unsigned",
        columns: "v",
        rows: ["1", "NULL", "3", "4294967295", "5", "NULL", "-7", "8"],
        filters: &[("v > 3", &[4, 5, 8]), ("v < 0", &[7]), ("v = 4294967295", &[4]), ("v IS NULL", &[2, 6])],
    },
    Topic {
        name: "float",
        columns: "v",
        rows: ["0.5", "NULL", "-1.25", "4.0", "0.1", "NULL", "1e300", "8.0"],
        filters: &[
            ("v > 0.2", &[1, 4, 7, 8]),
            ("v = 0.1", &[5]),
            ("v = 0.5", &[1]),
            ("v IS NULL", &[2, 6]),
            ("v > 1e299", &[7]),
        ],
    },
    Topic {
        name: "decimal",
        columns: "v",
        rows: ["1.2500", "NULL", "-9999999.9900", "4.0000", "1.0625", "NULL", "-0.0001", "8.0000"],
        filters: &[
            ("v > 1.1", &[1, 4, 8]),
            ("v = 1.25", &[1]),
            ("v < 0", &[3, 7]),
            ("v IS NULL", &[2, 6]),
            ("v = 1.0625", &[5]),
            ("v < -9999999", &[3]),
            ("v = 1.2501", &[]),
        ],
    },
    Topic {
        name: "timestamp",
        columns: "v",
        rows: [
            "2024-03-15T10:20:30",
            "NULL",
            "1969-12-31T23:59:59",
            "2024-03-15T10:20:30.001",
            "2024-03-15T10:20:30",
            "NULL",
            "1969-12-31T23:59:59",
            "2024-03-15T10:20:30.000001",
        ],
        filters: &[
            ("v > TIMESTAMP '2024-03-15 10:20:30'", &[4, 8]),
            ("v < TIMESTAMP '1970-01-01'", &[3, 7]),
            ("v IS NULL", &[2, 6]),
            ("v = TIMESTAMP '2024-03-15 10:20:30.000001'", &[8]),
            ("v = TIMESTAMP '2024-03-15 10:20:30.001'", &[4]),
        ],
    },
    Topic {
        name: "text",
        columns: "v",
        rows: ["a", "NULL", "", "d", "e", "NULL", "", "h"],
        filters: &[
            ("v = 'a'", &[1]),
            ("v > 'c'", &[4, 5, 8]),
            ("v IS NULL", &[2, 6]),
            ("v = ''", &[3, 7]),
            ("v LIKE 'h%'", &[8]),
        ],
    },
    Topic {
        name: "null",
        columns: "array_length(v), v[1]",
        rows: ["NULL|NULL", "NULL|NULL", "NULL|NULL", "NULL|NULL", "1|5", "NULL|NULL", "0|NULL", "2|8"],
        filters: &[("v IS NULL", &[1, 2, 3, 4, 6]), ("v[1] = 5", &[5])],
    },
];
