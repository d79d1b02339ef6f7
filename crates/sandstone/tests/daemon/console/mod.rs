//! The console and the API of a real daemon under attack: every form as every author, hostile names
//! everywhere, secrets in everything that is written or answered, and connections that never end.

mod forms;
mod hostile_names;
mod html;
mod logins;
mod remote;
mod secrets;
mod site;
mod slow_clients;
