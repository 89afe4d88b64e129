//! The route to a host: direct or through a proxy, as the environment says, by the rules of curl.
//!
//! ureq has one proxy for everything, and asks it for a tunnel (`CONNECT`). That is right for https. Plain http
//! requests, however, are made by the proxies themselves, and many of them allow tunnels to port 443 only.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::uri::Scheme;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport};
use ureq::{Agent, Error, Proxy, ProxyProtocol};

/// What the environment says about proxies.
#[derive(Debug, Clone)]
pub(super) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    /// Domains, addresses and networks that are asked directly.
    except: Vec<String>,
}

impl Proxies {
    /// `variable` gives the value of an environment variable that is set.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| variable(name).or_else(|| variable(&name.to_ascii_lowercase()));
        let proxy = |name| value(name).and_then(|address| Proxy::new(&address).ok());
        let except = value("NO_PROXY").unwrap_or_default();
        Self {
            http: proxy("HTTP_PROXY").or_else(|| proxy("ALL_PROXY")),
            https: proxy("HTTPS_PROXY").or_else(|| proxy("ALL_PROXY")),
            except: except.split(',').map(|entry| entry.trim().to_ascii_lowercase()).collect(),
        }
    }

    /// The proxy for what is at `address`.
    fn of(&self, address: &Uri) -> Option<&Proxy> {
        let proxy = if address.scheme() == Some(&Scheme::HTTPS) { &self.https } else { &self.http };
        let host = address.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
        proxy.as_ref().filter(|_| !self.except.iter().any(|entry| covers(entry, &host)))
    }
}

/// Whether an entry of `NO_PROXY` covers this host: `*`, a domain with everything below it, an address or a network.
fn covers(entry: &str, host: &str) -> bool {
    let Ok(address) = host.parse::<IpAddr>() else {
        let domain = entry.trim_start_matches('*').trim_start_matches('.');
        let is_below = || host.strip_suffix(domain).is_some_and(|above| above.ends_with('.'));
        return entry == "*" || host == domain || !domain.is_empty() && is_below();
    };
    let bits = |address| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let (network, prefix) = entry.split_once('/').unwrap_or((entry, "128"));
    let (network, prefix) = (network.trim_matches(['[', ']']).parse::<IpAddr>(), prefix.parse::<u32>());
    let is_in = |network: IpAddr, prefix: u32| {
        // Below an IPv4 address there are zeros in both.
        network.is_ipv4() == address.is_ipv4() && (bits(network) ^ bits(address)).leading_zeros() >= prefix
    };
    entry == "*" || network.is_ok_and(|network| prefix.is_ok_and(|prefix| is_in(network, prefix)))
}

/// An HTTP client for each way.
pub(super) struct Routes {
    proxies: Proxies,
    direct: Agent,
    http: Agent,
    https: Agent,
}

impl Routes {
    /// `config` makes a client's configuration with its proxy.
    pub fn new(proxies: Proxies, config: impl Fn(Option<Proxy>) -> Config) -> Self {
        let http = match &proxies.http {
            Some(proxy) if matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) => {
                let forward =
                    Forward { proxy: proxy.clone(), to_proxy: config(None), connector: DefaultConnector::new() };
                Agent::with_parts(config(Some(proxy.clone())), forward, DefaultResolver::default())
            }
            proxy => Agent::new_with_config(config(proxy.clone())),
        };
        let https = Agent::new_with_config(config(proxies.https.clone()));
        Self { direct: Agent::new_with_config(config(None)), http, https, proxies }
    }

    /// The client for what is at `address`.
    pub fn agent(&self, address: &Uri) -> &Agent {
        match self.proxies.of(address) {
            None => &self.direct,
            Some(_) if address.scheme() == Some(&Scheme::HTTPS) => &self.https,
            Some(_) => &self.http,
        }
    }
}

/// Connects to a proxy and leaves the rest to it.
#[derive(Debug)]
struct Forward {
    proxy: Proxy,
    /// How the proxy itself is connected to.
    to_proxy: Config,
    connector: DefaultConnector,
}

impl Connector for Forward {
    type Out = Forwarded;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Forwarded>, Error> {
        let (uri, config) = (self.proxy.uri(), &self.to_proxy);
        let to_proxy = ConnectionDetails {
            uri,
            addrs: details.resolver.resolve(uri, config, details.timeout)?,
            config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        let Some(transport) = self.connector.connect(&to_proxy, None)? else { return Ok(None) };
        let host = details.uri.authority().map_or("", |authority| authority.as_str());
        let host = host.rsplit('@').next().unwrap_or(host);
        let (user, password) = (self.proxy.username(), self.proxy.password());
        let authorization = user.or(password).map(|_| {
            let pair = format!("{}:{}", user.unwrap_or_default(), password.unwrap_or_default());
            format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(pair))
        });
        let authorization = authorization.unwrap_or_default();
        Ok(Some(Forwarded { transport, target: format!("http://{host}"), authorization }))
    }
}

/// A connection to a proxy that fetches what it is asked for.
struct Forwarded {
    transport: Box<dyn Transport>,
    target: String,
    authorization: String,
}

impl Transport for Forwarded {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    /// Sends a request without a body, as ureq writes it to the host itself: all of its lines at once.
    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = self.transport.buffers().output();
        let written = forwarded(&output[..amount], &self.target, &self.authorization);
        let place = output.get_mut(..written.len()).ok_or(Error::ConnectionFailed)?;
        place.copy_from_slice(&written);
        self.transport.transmit_output(written.len(), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }
}

impl std::fmt::Debug for Forwarded {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarded").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Turns `GET /path HTTP/1.1` and headers into a request to a proxy: `GET http://host/path HTTP/1.1`.
fn forwarded(request: &[u8], target: &str, authorization: &str) -> Vec<u8> {
    let path = request.iter().position(|&byte| byte == b' ').map_or(0, |space| space + 1);
    let headers = request.windows(2).position(|two| two == b"\r\n").map_or(request.len(), |end| end + 2);
    let (method, line, headers) = (&request[..path], &request[path..headers], &request[headers..]);
    [method, target.as_bytes(), line, authorization.as_bytes(), headers].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_of_proxy(variables: &[(&str, &str)], address: &str) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Proxies::read(value).of(&address.parse().unwrap()).map(|proxy| proxy.host().to_owned())
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let both = [("HTTP_PROXY", "http://plain:1"), ("https_proxy", "secure:2")];
        assert_eq!(host_of_proxy(&both, "http://hub.co").as_deref(), Some("plain"));
        assert_eq!(host_of_proxy(&both, "https://hub.co").as_deref(), Some("secure"));
        let all = [("ALL_PROXY", "http://any"), ("HTTPS_PROXY", "http://secure")];
        assert_eq!(host_of_proxy(&all, "http://hub.co").as_deref(), Some("any"));
        assert_eq!(host_of_proxy(&all, "https://hub.co").as_deref(), Some("secure"));
        assert_eq!(host_of_proxy(&both[..1], "https://hub.co"), None);
    }

    #[test]
    fn exceptions_are_domains_addresses_and_networks() {
        for (exceptions, host, is_direct) in [
            ("localhost, corp.com", "hub.corp.com", true),
            (".corp.com", "HUB.corp.com", true),
            ("*.corp.com", "corp.com", true),
            ("corp.com", "notcorp.com", false),
            ("", "hub.co", false),
            (",", "hub.co", false),
            ("*", "hub.co", true),
            ("*", "10.1.2.3", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "10.1.2.3", true),
            ("0.0.0.0/0", "[::1]", false),
            ("fe80::/10", "[fe80::1]", true),
            ("::1", "[::1]", true),
            ("3.co", "10.1.2.3", false),
        ] {
            let variables = [("HTTP_PROXY", "http://proxy"), ("NO_PROXY", exceptions)];
            let found = host_of_proxy(&variables, &format!("http://{host}:8080/x"));
            assert_eq!(found.is_none(), is_direct, "{host} with {exceptions}");
        }
    }

    #[test]
    fn a_proxy_is_told_whose_file_it_is_to_fetch() {
        let request = b"GET /a?b=c HTTP/1.1\r\nhost: hub.co\r\n\r\n";
        let sent = forwarded(request, "http://hub.co", "Proxy-Authorization: Basic eDp5\r\n");
        let expected = "GET http://hub.co/a?b=c HTTP/1.1\r\nProxy-Authorization: Basic eDp5\r\nhost: hub.co\r\n\r\n";
        assert_eq!(String::from_utf8(sent).unwrap(), expected);
    }
}
