//! Stream of live figures for pages. The console serves it, because it alone knows what its pages
//! show; so it is no part of the OpenAPI document.

/// Path of the stream.
pub const PATH: &str = "/v1/live";
