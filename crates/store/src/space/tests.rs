//! Tests of the space against a model, and of its rules one by one.

mod model;
mod rules;

use super::*;
