//! Typed views with the types of the Rust SDK, `rmcp`; behind the cargo feature of that name.
//!
//! They know fewer fields than a server may have sent, so the raw views stay the reference.

/// The types of the SDK.
pub use rmcp::model;
use rmcp::model::{CallToolResult, CompleteResult, GetPromptResult, ReadResourceResult};
use serde::de::DeserializeOwned;

use crate::catalog::{OfPrompts, OfResources, OfTemplates, OfTools, Offer};
use crate::server::Reply;

/// The type of the SDK that an item of the catalog has. Implemented for the four kinds of items.
pub trait SdkItem: sealed::Sealed {
    /// The SDK's type.
    type Model: DeserializeOwned;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! sdk_items {
    ($($kind:ty => $model:ty),* $(,)?) => {$(
        impl sealed::Sealed for $kind {}
        impl SdkItem for $kind {
            type Model = $model;
        }
    )*};
}

sdk_items! {
    OfTools => model::Tool,
    OfPrompts => model::Prompt,
    OfResources => model::Resource,
    OfTemplates => model::ResourceTemplate,
}

impl<K: SdkItem> Offer<K> {
    /// The published item as the SDK's type.
    pub fn typed(&self) -> Result<K::Model, serde_json::Error> {
        self.published().parse()
    }
}

impl Reply {
    /// The result of a tool, as the SDK's type.
    pub fn tool_result(&self) -> Result<CallToolResult, serde_json::Error> {
        self.typed()
    }

    /// A prompt, as the SDK's type.
    pub fn prompt(&self) -> Result<GetPromptResult, serde_json::Error> {
        self.typed()
    }

    /// The contents of a resource, as the SDK's type.
    pub fn resource(&self) -> Result<ReadResourceResult, serde_json::Error> {
        self.typed()
    }

    /// The completion of an argument, as the SDK's type.
    pub fn completion(&self) -> Result<CompleteResult, serde_json::Error> {
        self.typed()
    }
}
