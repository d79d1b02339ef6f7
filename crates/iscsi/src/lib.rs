//! iSCSI without I/O: bytes in, events and bytes out (RFC 7143).
