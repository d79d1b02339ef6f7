//! Reference-counted 4 KiB pages: how bytes travel without being copied.
