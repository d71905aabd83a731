//! Sets that a cluster writes, without failures.

use crate::processes::{ARRANGEMENTS, Cluster, assert_done, assert_same_files, rows};

#[test]
fn cluster_write_is_independent_of_the_number_of_executors() {
    for executors in [1, 2, 3] {
        let cluster = Cluster::new(executors);
        for (name, arguments) in ARRANGEMENTS {
            let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
            let query = cluster.query();
            assert_done(&cluster.local(&query, &alone, arguments));
            assert_done(&cluster.command(&query, &together, arguments).output().unwrap());
            assert_same_files(&format!("{name} by {executors}"), &together, &alone);
        }
        assert_eq!(cluster.names("together"), cluster.names("alone"), "nothing is left over");
    }
}

#[test]
fn cluster_exchange_yields_the_rows_of_one_process() {
    let cluster = Cluster::new(2);
    let trips = cluster.trips();
    let queries = [
        ("aggregate", format!("SELECT city, count(*) AS n, sum(fare) > 0 AS paid FROM {trips} GROUP BY city")),
        ("distinct", format!("SELECT DISTINCT zone_id, city FROM {trips}")),
        (
            "join",
            format!(
                "SELECT a.trip_id, a.fare, b.n FROM {trips} a JOIN (SELECT trip_id, count(*) AS n FROM {trips} GROUP BY \
                 trip_id) b ON a.trip_id = b.trip_id"
            ),
        ),
        (
            "left join",
            format!(
                "SELECT a.zone_id, b.m FROM (SELECT DISTINCT zone_id FROM {trips}) a LEFT JOIN (SELECT zone_id, \
                 max(trip_id) AS m FROM {trips} WHERE fare > 60 GROUP BY zone_id) b ON a.zone_id = b.zone_id"
            ),
        ),
        ("window", format!("SELECT trip_id, row_number() OVER (PARTITION BY trip_id ORDER BY fare) AS r FROM {trips}")),
        (
            "union",
            format!(
                "SELECT city, count(*) AS n FROM {trips} GROUP BY city UNION ALL SELECT city, -1 FROM {trips} WHERE \
                 fare > 50"
            ),
        ),
        ("top", format!("SELECT trip_id, fare FROM {trips} ORDER BY fare DESC, trip_id LIMIT 10")),
        ("scalar", format!("SELECT trip_id, fare FROM {trips} WHERE fare > (SELECT avg(fare) FROM {trips})")),
        ("one row", format!("SELECT count(*) AS n, max(fare) AS m FROM {trips}")),
    ];
    for (name, query) in queries {
        let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
        assert_done(&cluster.local(&query, &alone, &[]));
        let output = cluster.command(&query, &together, &[]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let (found, expected) = (rows(&together), rows(&alone));
        assert!(!found.is_empty());
        assert!(found == expected, "{name}: {} rows, expected {}", found.len(), expected.len());
    }
}

#[test]
fn cluster_write_keeps_the_order_of_the_query() {
    let cluster = Cluster::new(2);
    let query = format!("SELECT trip_id, fare, zone_id FROM {} ORDER BY trip_id, fare, zone_id", cluster.trips());
    for (name, arguments) in [("size", ["--shard-rows", "5000"]), ("count", ["--shards", "3"])] {
        let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
        assert_done(&cluster.local(&query, &alone, &arguments));
        assert_done(&cluster.command(&query, &together, &arguments).output().unwrap());
        assert_same_files(name, &together, &alone);
    }
}
