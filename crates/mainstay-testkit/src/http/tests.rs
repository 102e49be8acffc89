mod client;
mod faults;
mod modern;
mod sessions;
