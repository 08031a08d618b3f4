//! The program as its users call it: commands, exit codes, signals, output; and the README's and the guides' blocks.

#![allow(clippy::unwrap_used)]

mod binary;
mod house;
mod reader;

mod clocks;
mod databases;
mod early_signals;
mod exit_codes;
mod failover;
mod features;
mod guides;
mod killed_server;
mod one_line;
mod output;
mod owners;
mod prometheus;
mod read_only;
mod readme;
mod reference;
mod run;
mod secrets_in_logs;
mod serve;
mod service;
mod settings;
mod stopped_waiters;
mod sweep_and_verify;
mod templates;
mod terminal;
mod tokens;
mod verbs;
