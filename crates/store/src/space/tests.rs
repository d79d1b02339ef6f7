//! The space against a model, and its rules one by one.

mod model;
mod rules;

use super::*;
