//! Classes of IP addresses, to keep servers from sending the client to internal ones (SSRF).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an IP address is for. IPv6 forms that carry an IPv4 address count as that IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// An address on the internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network: RFC 1918, or the former site-local range of IPv6.
    Private,
    /// A private network of IPv6 (`fc00::/7`).
    UniqueLocal,
    /// The shared space of carriers, 100.64.0.0/10.
    Shared,
    /// 198.18.0.0/15 and its IPv6 counterpart. Some VPNs resolve every name to it.
    Benchmarking,
    /// The local link, where clouds keep their instance credentials.
    LinkLocal,
    /// Examples in documents.
    Documentation,
    /// A group of hosts.
    Multicast,
    /// No address: 0.0.0.0/8 and `::`. Many systems connect it to themselves.
    Unspecified,
    /// Reserved by IANA, or not routed.
    Reserved,
}

impl AddressClass {
    /// Classifies an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Whether an address of this class is on the internet.
    pub fn is_public(self) -> bool {
        self == Self::Public
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] => AddressClass::Reserved,
        [198, 18..=19, ..] => AddressClass::Benchmarking,
        [224..=239, ..] => AddressClass::Multicast,
        [240..=255, ..] => AddressClass::Reserved,
        _other => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    if address == Ipv6Addr::UNSPECIFIED {
        return AddressClass::Unspecified;
    }
    if address == Ipv6Addr::LOCALHOST {
        return AddressClass::Loopback;
    }
    if let Some(embedded) = embedded_v4(address) {
        return of_v4(embedded);
    }
    match address.segments() {
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xfc00..=0xfdff, ..] => AddressClass::UniqueLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Documentation,
        [0x2001, 2, 0, ..] => AddressClass::Benchmarking,
        // Protocol assignments, among them Teredo, which hides an IPv4 address.
        [0x2001, 0..=0x1ff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _unassigned => AddressClass::Reserved,
    }
}

/// The IPv4 address inside a mapped, compatible, translated, NAT64 or 6to4 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => from(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => from(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => from(high, low),
        [0x64, 0xff9b, 1, _, _, _, high, low] => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _native => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_class() {
        use AddressClass as C;
        let cases = [
            ("8.8.8.8", C::Public),
            ("1.1.1.1", C::Public),
            ("100.63.255.255", C::Public),
            ("100.128.0.1", C::Public),
            ("172.15.0.1", C::Public),
            ("172.32.0.1", C::Public),
            ("192.167.1.1", C::Public),
            ("198.17.0.1", C::Public),
            ("198.20.0.1", C::Public),
            ("223.255.255.255", C::Public),
            ("0.0.0.0", C::Unspecified),
            ("0.1.2.3", C::Unspecified),
            ("10.0.0.1", C::Private),
            ("172.16.0.1", C::Private),
            ("172.31.255.255", C::Private),
            ("192.168.0.1", C::Private),
            ("100.64.0.1", C::Shared),
            ("100.127.255.255", C::Shared),
            ("127.0.0.1", C::Loopback),
            ("127.255.255.254", C::Loopback),
            ("169.254.169.254", C::LinkLocal),
            ("192.0.2.1", C::Documentation),
            ("198.51.100.1", C::Documentation),
            ("203.0.113.1", C::Documentation),
            ("192.0.0.8", C::Reserved),
            ("192.88.99.1", C::Reserved),
            ("198.18.0.1", C::Benchmarking),
            ("198.19.255.255", C::Benchmarking),
            ("224.0.0.1", C::Multicast),
            ("239.255.255.255", C::Multicast),
            ("240.0.0.1", C::Reserved),
            ("255.255.255.255", C::Reserved),
            ("2606:4700:4700::1111", C::Public),
            ("::", C::Unspecified),
            ("::1", C::Loopback),
            ("fe80::1", C::LinkLocal),
            ("febf::1", C::LinkLocal),
            ("fec0::1", C::Private),
            ("fc00::1", C::UniqueLocal),
            ("fd00:ec2::254", C::UniqueLocal),
            ("ff02::1", C::Multicast),
            ("2001:db8::1", C::Documentation),
            ("3fff::1", C::Documentation),
            ("3fff:1000::1", C::Public),
            ("2001:2::1", C::Benchmarking),
            ("2001::1", C::Reserved),
            ("2001:1ff::1", C::Reserved),
            ("2001:200::1", C::Public),
            ("100::1", C::Reserved),
            ("4000::1", C::Reserved),
            ("::ffff:127.0.0.1", C::Loopback),
            ("::ffff:169.254.169.254", C::LinkLocal),
            ("::ffff:8.8.8.8", C::Public),
            ("::ffff:0:10.0.0.1", C::Private),
            ("::169.254.169.254", C::LinkLocal),
            ("64:ff9b::10.0.0.1", C::Private),
            ("64:ff9b::8.8.8.8", C::Public),
            ("64:ff9b:1::169.254.169.254", C::LinkLocal),
            ("2002:a9fe:a9fe::1", C::LinkLocal),
            ("2002:7f00:1::", C::Loopback),
            ("2002:808:808::1", C::Public),
        ];
        for (text, class) in cases {
            assert_eq!(AddressClass::of(text.parse().unwrap()), class, "{text}");
            assert_eq!(class.is_public(), class == C::Public);
        }
    }
}
