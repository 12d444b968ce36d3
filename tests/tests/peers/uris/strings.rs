//! The connection strings: some chosen by hand, and others made by a grammar from a seed.

use onionskin::options::Seed;
use onionskin_core::random::Random;

/// The number of strings that the grammar makes.
const GENERATED: usize = 290;

/// Returns all strings, without duplicates.
pub(crate) fn all() -> Vec<String> {
    let mut texts: Vec<String> = CHOSEN.iter().map(ToString::to_string).collect();
    let mut random = Seed::new([42; 32]).split("connection strings").random();
    while texts.len() < CHOSEN.len() + GENERATED {
        let text = text(&mut random);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Returns one of these texts.
fn one<'a>(random: &mut Random, texts: &[&'a str]) -> &'a str {
    texts[random.below(texts.len() as u64) as usize]
}

/// Makes a connection string. In about half of the strings, one part is odd or broken.
fn text(random: &mut Random) -> String {
    let odd = if random.chance(1, 2) {
        random.below(4)
    } else {
        9
    };
    let part = |random: &mut Random, number: u64, usual: &[&str], strange: &[&str]| {
        one(random, if odd == number { strange } else { usual }).to_owned()
    };
    let scheme = if random.chance(1, 6) {
        "mongodb+srv"
    } else {
        "mongodb"
    };
    let userinfo = part(random, 0, &USERINFO, &ODD_USERINFO);
    let mut hosts = part(random, 1, &HOSTS, &ODD_HOSTS);
    while odd != 1 && scheme == "mongodb" && random.chance(1, 3) {
        hosts = format!("{hosts},{}", one(random, &HOSTS));
    }
    if scheme == "mongodb+srv" && odd != 1 {
        hosts = one(
            random,
            &["c.example.net", "localhost", "Db.Local", "a.b.c.d"],
        )
        .to_owned();
    }
    let database = part(random, 2, &DATABASES, &ODD_DATABASES);
    let count = random.below(5);
    let mut options = Vec::new();
    for index in 0..count {
        let is_odd = odd == 3 && index == 0;
        options.push(one(random, if is_odd { &ODD_OPTIONS } else { &OPTIONS }));
    }
    let mark = if options.is_empty() { "" } else { "?" };
    format!(
        "{scheme}://{userinfo}{hosts}{database}{mark}{}",
        options.join("&")
    )
}

const USERINFO: [&str; 8] = [
    "",
    "",
    "",
    "u:p@",
    "alice:pass%20word@",
    "o%27neil:p%40ss%3Aword@",
    "user%2Ename:!$'()*+,;=@",
    "%E7%94%A8:%E5%AF%86@",
];

const ODD_USERINFO: [&str; 12] = [
    "u@", "u:@", ":p@", "@", "u:p@q@", "u:p:q@", "u:p%@", "u:p%zz@", "u:p/q@", "u:p?q@", "u:p%ff@",
    "u p:q r@",
];

const HOSTS: [&str; 10] = [
    "localhost",
    "localhost:27017",
    "a:1",
    "B.Example.NET:65535",
    "127.0.0.1:27018",
    "[::1]",
    "[2001:db8::1]:27019",
    "%2Ftmp%2Fmongodb-27017.sock",
    "mongodb-27017.sock",
    "256.0.0.1",
];

const ODD_HOSTS: [&str; 14] = [
    "",
    ",",
    "a,",
    ",a",
    "a,,b",
    "a:0",
    "a:65536",
    "a:-1",
    "a:b",
    "a:",
    "a:1:2",
    "[::1",
    "::1",
    "/tmp/mongodb-27017.sock",
];

const DATABASES: [&str; 7] = ["", "/", "/", "/", "/admin", "/my%20db", "/db.coll"];

const ODD_DATABASES: [&str; 8] = [
    "/a%2Fb", "/a$b", "/a%5Cb", "/a%22b", "/a%3Fb", "/a,b", "/%", "/db+x",
];

const OPTIONS: [&str; 40] = [
    "w=1",
    "w=majority",
    "W=2",
    "journal=true",
    "journal=false",
    "wTimeoutMS=500",
    "appName=my%20app",
    "appname=x",
    "connectTimeoutMS=100",
    "socketTimeoutMS=0",
    "serverSelectionTimeoutMS=5000",
    "heartbeatFrequencyMS=1000",
    "localThresholdMS=30",
    "maxPoolSize=50",
    "minPoolSize=5",
    "maxIdleTimeMS=1000",
    "maxConnecting=3",
    "waitQueueTimeoutMS=50",
    "retryWrites=true",
    "retryReads=false",
    "replicaSet=rs0",
    "readPreference=secondary",
    "readPreference=nearest",
    "readPreferenceTags=dc:ny,rack:1",
    "readPreferenceTags=",
    "maxStalenessSeconds=120",
    "readConcernLevel=majority",
    "tls=true",
    "ssl=true",
    "tlsInsecure=true",
    "tlsAllowInvalidHostnames=true",
    "compressors=zlib",
    "zlibCompressionLevel=5",
    "authSource=users",
    "authMechanism=SCRAM-SHA-256",
    "authMechanism=SCRAM-SHA-1",
    "timeoutMS=1000",
    "directConnection=false",
    "loadBalanced=false",
    "serverMonitoringMode=poll",
];

const ODD_OPTIONS: [&str; 44] = [
    "",
    "w",
    "=1",
    "w=",
    "w=-1",
    "unknown=1",
    "maxPoolSize=",
    "maxPoolSize=lots",
    "maxPoolSize=-1",
    "journal=yes",
    "tls=1",
    "tls=maybe",
    "retryWrites=",
    "readPreference=any",
    "readPreferenceTags=dc",
    "maxStalenessSeconds=-2",
    "heartbeatFrequencyMS=-2",
    "connectTimeoutMS=1.5",
    "appName=a%",
    "appName=a=b",
    "appName=a+b",
    "appName=%C3%A9",
    "compressors=lzma",
    "compressors=zlib,lzma",
    "zlibCompressionLevel=10",
    "authSource=",
    "authMechanism=MONGODB-CR",
    "authMechanism=PLAIN",
    "authMechanism=MONGODB-X509",
    "authMechanism=GSSAPI",
    "authMechanismProperties=A:b",
    "directConnection=true",
    "loadBalanced=true",
    "srvMaxHosts=1",
    "srvServiceName=db",
    "tls=true&ssl=false",
    "tlsInsecure=true&tlsAllowInvalidCertificates=true",
    "proxyHost=p",
    "proxyPort=1",
    "wtimeout=5",
    "wtimeout=5&wTimeoutMS=6",
    "w=0&journal=true",
    "replicaSet=",
    "timeoutMS=-1",
];

/// Strings that were chosen by hand.
const CHOSEN: [&str; 120] = [
    "",
    "mongodb",
    "mongodb:",
    "mongodb:/",
    "mongodb://",
    "mongo://localhost",
    "http://localhost",
    "MONGODB://localhost",
    " mongodb://localhost",
    "mongodb://localhost ",
    "mongodb:///",
    "mongodb://?w=1",
    "mongodb:///?w=1",
    "mongodb://localhost",
    "mongodb://localhost/",
    "mongodb://localhost?w=1",
    "mongodb://localhost/?",
    "mongodb://localhost/??w=1",
    "mongodb://localhost/?w=1&",
    "mongodb://localhost/?&w=1",
    "mongodb://localhost/?w=1&&appName=x",
    "mongodb://localhost/?w=1;appName=x",
    "mongodb://localhost/?w=1#fragment",
    "mongodb://localhost/db#fragment",
    "mongodb://localhost#fragment",
    "mongodb://localhost/db?appName=x?y",
    "mongodb://localhost/db?appName=x/y",
    "mongodb://localhost/?appName=x@y",
    "mongodb://localhost?appName=a@b/c",
    "mongodb://localhost/?appName=%26%3D%25",
    "mongodb://localhost/?app%4Eame=x",
    "mongodb://localhost/?appName=x&appName=y",
    "mongodb://localhost/?replicaSet=test&replicaSet=test",
    "mongodb://localhost/?tls=true&tls=false",
    "mongodb://localhost/?tls=true&ssl=true",
    "mongodb://localhost/?TLS=true",
    "mongodb://localhost/?tls=True",
    "mongodb://localhost/?retryWrites=false",
    "mongodb://localhost/?readPreference=secondary&readPreferenceTags=a:b&readPreferenceTags=",
    "mongodb://localhost/?readPreference=secondary&readPreferenceTags=a:b:c",
    "mongodb://localhost/?readPreference=primary&readPreferenceTags=a:b",
    "mongodb://localhost/?readPreference=primary&maxStalenessSeconds=120",
    "mongodb://localhost/?readPreference=PRIMARY",
    "mongodb://localhost/?w=5a",
    "mongodb://localhost/?w=0",
    "mongodb://localhost/?w=2147483648",
    "mongodb://localhost/?maxPoolSize=0",
    "mongodb://localhost/?maxPoolSize=5&minPoolSize=6",
    "mongodb://localhost/?maxPoolSize=+5",
    "mongodb://localhost/?maxPoolSize=%205",
    "mongodb://localhost/?maxPoolSize=05",
    "mongodb://localhost/?maxPoolSize=4294967296",
    "mongodb://localhost/?maxIdleTimeMS=0",
    "mongodb://localhost/?heartbeatFrequencyMS=499",
    "mongodb://localhost/?serverSelectionTimeoutMS=0",
    "mongodb://localhost/?serverSelectionTryOnce=false",
    "mongodb://localhost/?maxStalenessSeconds=-1",
    "mongodb://localhost/?readPreference=secondary&maxStalenessSeconds=0",
    "mongodb://localhost/?compressors=snappy,zlib,zstd",
    "mongodb://localhost/?compressors=",
    "mongodb://localhost/?zlibCompressionLevel=-1",
    "mongodb://localhost/?zlibCompressionLevel=-2",
    "mongodb://localhost/?proxyHost=p&proxyPort=1080&proxyUsername=u&proxyPassword=s",
    "mongodb://localhost/?tlsCertificateKeyFilePassword=secret",
    "mongodb://localhost/?gssapiServiceName=db",
    "mongodb://localhost/?appName=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
     aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "mongodb://u:p@localhost",
    "mongodb://u@localhost",
    "mongodb://u:@localhost",
    "mongodb://:@localhost",
    "mongodb://u:p@localhost/db",
    "mongodb://u:p@localhost/db?authSource=other",
    "mongodb://u+v:p+q@localhost",
    "mongodb://u%2Bv:p%2Bq@localhost",
    "mongodb://%75ser:p@localhost",
    "mongodb://us%65r%3A:p@localhost",
    "mongodb://u:p[q]@localhost",
    "mongodb://u:p#q@localhost",
    "mongodb://u:p<q>@localhost",
    "mongodb://ü:ö@localhost",
    "mongodb://u:p%2fq@localhost",
    "mongodb://u:p%00@localhost",
    "mongodb://u:p@localhost@evil",
    "mongodb://u:p@",
    "mongodb://u:p@,a",
    "mongodb://u@localhost/?authMechanism=MONGODB-X509",
    "mongodb://CN%3Duser@localhost/?authMechanism=MONGODB-X509",
    "mongodb://u:p@localhost/?authMechanism=MONGODB-X509",
    "mongodb://localhost/?authMechanism=MONGODB-AWS",
    "mongodb://u:p@localhost/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:t",
    "mongodb://u@localhost/?authMechanism=GSSAPI&authMechanismProperties=SERVICE_NAME:x",
    "mongodb://u%40R@localhost/?authMechanism=GSSAPI&authMechanismProperties=SERVICE_REALM:R",
    "mongodb://localhost/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s",
    "mongodb://localhost/?authMechanism=SCRAM-SHA-256",
    "mongodb://münchen.example/",
    "mongodb://a_b.example,c-d:5/",
    "mongodb://[::1]:27017,[fe80::1%25eth0]/",
    "mongodb://[::ffff:1.2.3.4]/",
    "mongodb://[localhost]/",
    "mongodb://[::1]x/",
    "mongodb://%5B::1%5D/",
    "mongodb://a%3A5/",
    "mongodb://a b/",
    "mongodb://a%2Fb.sock:5/",
    "mongodb://%2Ftmp%2FX.sock,a/",
    "mongodb://a:00027017/",
    "mongodb+srv://c.example.net/?srvMaxHosts=2&srvServiceName=db",
    "mongodb+srv://c.example.net:27017",
    "mongodb+srv://a.example.net,b.example.net",
    "mongodb+srv://u:p@C.Example.Net/db?directConnection=true",
    "mongodb+srv://c.example.net/?srvMaxHosts=1&replicaSet=rs",
    "mongodb+srv://[::1]/",
    "mongodb://localhost/?w=0&journal=true",
    "mongodb://a,b/?loadBalanced=true",
    "mongodb://a,b/?directConnection=true",
    "mongodb://a/?loadBalanced=true&replicaSet=rs",
    "mongodb://localhost/?tlsInsecure=true&tlsAllowInvalidCertificates=true",
    "mongodb://localhost/?tlsInsecure=false&tlsAllowInvalidHostnames=false",
    "mongodb://localhost/?srvMaxHosts=0",
    "mongodb://localhost/?proxyHost=p&proxyUsername=u",
];
