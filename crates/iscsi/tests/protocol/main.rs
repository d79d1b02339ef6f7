//! The protocol at both ends, and what attackers send. All tests are one program, so that it is
//! linked once.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod additional_header_segments;
mod answers_await_the_command;
mod attack_11_hostile_target;
mod attack_1_key_floods;
mod attack_2_chap;
mod attack_3_not_a_login;
mod attack_4_split_text;
mod attack_5_data_lengths;
mod data_out_harness;
mod data_that_never_comes;
mod early_data;
mod immediate_commands;
mod initiator_and_target;
mod isns;
mod login;
mod login_harness;
mod long_pings;
mod lost_connections;
mod lost_data_out;
mod old_peers;
mod overtaken_commands;
mod pings_keep_the_window_open;
