//! The parts of a connection string, for reading.

use super::{ConnectionString, Scheme, connection_string::Hosts};
use crate::{address::Address, options::Secret};

impl ConnectionString {
    /// Returns the scheme.
    ///
    /// ```
    /// use onionskin_core::uri::{ConnectionString, Scheme};
    ///
    /// let string = ConnectionString::parse("mongodb://localhost/")?;
    /// assert_eq!(string.scheme(), Scheme::Mongodb);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        match self.hosts {
            Hosts::Seeds(_) => Scheme::Mongodb,
            Hosts::Srv(_) => Scheme::MongodbSrv,
        }
    }

    /// Returns the hosts, in the order of the string. Empty with `mongodb+srv`.
    ///
    /// ```
    /// use onionskin_core::{address::Address, uri::ConnectionString};
    ///
    /// let string = ConnectionString::parse("mongodb://localhost/")?;
    /// assert_eq!(string.hosts(), [Address::tcp("localhost", 27017)]);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn hosts(&self) -> &[Address] {
        match &self.hosts {
            Hosts::Seeds(hosts) => hosts,
            Hosts::Srv(_) => &[],
        }
    }

    /// Returns the host of SRV records, in lower case; `None` with `mongodb`.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb+srv://Cluster.example.net/")?;
    /// assert_eq!(string.srv_host(), Some("cluster.example.net"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn srv_host(&self) -> Option<&str> {
        match &self.hosts {
            Hosts::Seeds(_) => None,
            Hosts::Srv(host) => Some(host),
        }
    }

    /// Returns the user name, decoded.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb://me%40home:pencil@localhost/")?;
    /// assert_eq!(string.username(), Some("me@home"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.userinfo.as_ref().map(|(name, _)| name.as_str())
    }

    /// Returns the password, decoded. `None` means that there is no colon after the user name,
    /// which differs from an empty password ([CS-7]).
    ///
    /// ```
    /// use onionskin_core::{options::Secret, uri::ConnectionString};
    ///
    /// let string = ConnectionString::parse("mongodb://me:pencil@localhost/")?;
    /// assert_eq!(string.password().map(Secret::expose), Some("pencil"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    ///
    /// [CS-7]: crate::requirements::connection_strings#CS-7
    #[must_use]
    pub fn password(&self) -> Option<&Secret> {
        let (_, password) = self.userinfo.as_ref()?;
        password.as_ref()
    }

    /// Returns the database, decoded.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb://localhost/app")?;
    /// assert_eq!(string.database(), Some("app"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns the key and the value of each option, in the order of the string. Both are decoded,
    /// except a value whose percent-encoding is invalid. Unknown options are among them. Values can
    /// be secrets, such as that of `proxyPassword`.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb://localhost/?w=1&appName=shop")?;
    /// let keys: Vec<&str> = string.options().map(|(key, _)| key).collect();
    /// assert_eq!(keys, ["w", "appName"]);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        let options = self.options.iter();
        options.map(|pair| (pair.key.as_str(), pair.value.expose()))
    }

    /// Returns the value of an option as [`options`](Self::options) does; of its last occurrence if
    /// there are several. The letter case of `name` does not count.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb://localhost/?appName=shop")?;
    /// assert_eq!(string.option("appname"), Some("shop"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let pair = self.options.iter().rev().find(|pair| pair.is(name))?;
        Some(pair.value.expose())
    }
}
