//! Why a block request failed: a small stable kind, a context, a source.
