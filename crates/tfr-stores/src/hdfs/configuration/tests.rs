use super::*;

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, properties) in files {
            let text = format!("<?xml version=\"1.0\"?>\n<configuration>{properties}</configuration>");
            fs::write(directory.path().join(name), text).unwrap();
        }
        Self { directory }
    }

    fn read(&self) -> SettingsResult<Configuration> {
        let path = self.directory.path().display().to_string();
        Configuration::read(&[("HADOOP_CONF_DIR", path.as_str()), ("NODE", "node.example"), ("USER", "ann")].into())
    }
}

fn property(name: &str, value: &str) -> String {
    format!("<property><name> {name}\n</name><value>{value}</value></property>")
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

const HA: [(&str, &str); 5] = [
    ("dfs.nameservices", "ns1"),
    ("dfs.ha.namenodes.ns1", "nn1, nn2 "),
    ("dfs.namenode.rpc-address.ns1.nn1", "${first.host}:${first.port}"),
    ("dfs.namenode.rpc-address.ns1.nn2", "\n  second.example\n"),
    ("first.host", "${env.NODE}"),
];

#[test]
fn hdfs_values_are_resolved_trimmed_and_final() {
    let core = [
        property("first.port", "${base}1"),
        property("base", "900"),
        property("home", "/user/${user.name}/${env.NONE:-none}/${env.NONE-x}/${unknown}"),
        property("a.b", "<![CDATA[1]]><!-- no -->2"),
        "<property name=\"in.attributes\" value=\"yes\"/>".to_owned(),
        "<property><name>fixed</name><value>core</value><final>true</final></property>".to_owned(),
        "<xi:include xmlns:xi=\"http://www.w3.org/2001/XInclude\" href=\"more.xml\"/>".to_owned(),
        property("loop", "${loop}"),
    ];
    let site = [property("fixed", "site"), property("base", "901"), property("empty", "")];
    let more = property("included", "1");
    let files = [("core-site.xml", core.concat()), ("hdfs-site.xml", site.concat()), ("more.xml", more)];
    let files = Files::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let found = files.read().unwrap();
    for (name, value) in [
        ("first.port", Some("9011")),
        ("home", Some("/user/ann/none/x/${unknown}")),
        ("a.b", Some("12")),
        ("in.attributes", Some("yes")),
        ("fixed", Some("core")),
        ("included", Some("1")),
        ("loop", Some("${loop}")),
        ("empty", Some("")),
        ("none", None),
    ] {
        assert_eq!(found.get(name), value, "{name}");
    }
}

#[test]
fn hdfs_namenodes_are_those_of_hadoop() {
    let mut properties: Vec<_> = HA.iter().map(|(name, value)| property(name, value)).collect();
    properties.extend([
        property("first.port", "9010"),
        property("dfs.namenode.rpc-address.single", "alone.example:9020"),
        property("dfs.ha.namenodes.half", "nn1"),
        property("fs.defaultFS", " hdfs://ns1 "),
    ]);
    let files = Files::new(&[("hdfs-site.xml", &properties.concat())]);
    let found = files.read().unwrap();
    for (text, opened, addresses) in [
        ("hdfs://ns1", "hdfs://ns1", &["node.example:9010", "second.example:8020"][..]),
        ("hdfs://single", "hdfs://alone.example:9020", &["alone.example:9020"]),
        ("hdfs://other.example", "hdfs://other.example:8020", &["other.example:8020"]),
        ("hdfs://other.example:9", "hdfs://other.example:9", &["other.example:9"]),
        ("hdfs://[::1]", "hdfs://[::1]:8020", &["[::1]:8020"]),
        ("hdfs:///", "hdfs://ns1", &["node.example:9010", "second.example:8020"]),
    ] {
        let authority = found.authority(&found.with_host(&url(text)).unwrap()).unwrap();
        assert_eq!((authority.url.as_str(), &authority.addresses[..]), (opened, &addresses.map_owned()[..]), "{text}");
        let names = authority.service.map(|service| service.namenodes);
        assert_eq!(names.is_some(), addresses.len() > 1, "{text}");
        assert!(names.is_none_or(|names| names == ["nn1", "nn2"]), "{text}");
    }
    for (text, problem) in [
        ("hdfs://ns1:8020", "ns1 is a name service, so its URL has no port, but this one has 8020"),
        ("hdfs://half", "dfs.namenode.rpc-address.half.nn1 is not set"),
    ] {
        assert_eq!(found.authority(&url(text)).unwrap_err().to_string(), problem);
    }
    let problem = Configuration::default().with_host(&url("hdfs:///x")).unwrap_err();
    assert_eq!(problem.to_string(), "the URL has no host, and fs.defaultFS is not set");
    assert_eq!(
        found.with_host(&url("viewfs:///x")).unwrap_err().to_string(),
        "the URL has no host, and fs.defaultFS is hdfs://ns1"
    );
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn hdfs_mounts_need_no_fallback() {
    let mount = |kind: &str, target: &str| property(&format!("fs.viewfs.mounttable.cl.{kind}"), target);
    let with = |more: &str| {
        let links = [mount("link./data", "hdfs://a/x"), mount("link./data/deep/", "hdfs://b/y"), more.to_owned()];
        let files = Files::new(&[("core-site.xml", &links.concat())]);
        let found = files.read().unwrap();
        found.mounts(&url("viewfs://cl/"))
    };
    let shown = |links: Vec<Link>| links.into_iter().map(|link| (link.directory, link.target)).collect::<Vec<_>>();
    let pair = |directory: &str, target: &str| (directory.to_owned(), target.to_owned());
    let expected = [pair("/data/deep", "hdfs://b/y"), pair("/data", "hdfs://a/x")];
    assert_eq!(shown(with("").unwrap()), expected);
    assert_eq!(shown(with(&mount("homedir", "/home")).unwrap()), expected);
    let fallback = shown(with(&mount("linkFallback", "hdfs://a/rest")).unwrap());
    assert_eq!(fallback[2..], [pair("", "hdfs://a/rest")]);
    let problem = with(&mount("linkNfly.minReplication=2./x", "hdfs://a,hdfs://b")).unwrap_err();
    assert!(problem.to_string().ends_with("/x: this kind of mount is not supported"), "{problem}");
    assert_eq!(
        Configuration::default().mounts(&url("viewfs://cl/")).unwrap_err().to_string(),
        "there are no mounts (fs.viewfs.mounttable.cl.link.*)"
    );
}

#[test]
fn hdfs_configuration_that_cannot_be_read_is_an_error() {
    let problem = Configuration::read(&[("HADOOP_CONF_DIR", "/none")].into()).unwrap_err();
    assert_eq!(problem.to_string(), "there is no directory of Hadoop's configuration at /none");
    assert!(Configuration::read(&[("HADOOP_HOME", "/none")].into()).is_err());
    let files = Files::new(&[]);
    for text in ["<configuration>", "<settings/>", "<configuration><include href='core-site.xml'/></configuration>"] {
        fs::write(files.directory.path().join("core-site.xml"), text).unwrap();
        let problem = files.read().unwrap_err().to_string();
        assert!(problem.contains("core-site.xml: "), "{problem}");
    }
    assert_eq!(Configuration::read(&Environment::default()).unwrap().get("fs.defaultFS"), None);
}
