//! `mainstay serve`: all servers as one MCP server.

use anyhow::anyhow;
use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, Scope};

use crate::args::{Common, Serve};
use crate::exit::{Done, Exit, Failure};
use crate::load::{Setup, load};
use crate::output::Screen;
use crate::run::until_signalled;
use crate::standard;

pub(crate) fn run(arguments: &Serve, common: &Common, screen: &Screen) -> Done {
    if !arguments.stdio {
        return Err(Failure::usage(anyhow!("say how to serve: with --stdio")));
    }
    let setup = load(common)?;
    setup.announce(screen);
    serve_stdio(&setup, Scope::Union, screen)
}

/// Serves one client on stdin and stdout, and closes the servers when it is gone.
pub(crate) fn serve_stdio(setup: &Setup, scope: Scope, screen: &Screen) -> Done {
    // One client and its servers: everything waits for something else, and one thread wakes nobody.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::failed)?;
    let done = runtime.block_on(async {
        let gateway = start(setup);
        let fleet = gateway.fleet().clone();
        let served = async {
            gateway
                .serve_stdio(scope, standard::input(), standard::output())
                .await;
            Ok(Exit::Success)
        };
        until_signalled(&fleet, screen, served).await
    });
    runtime.shutdown_background();
    done
}

fn start(setup: &Setup) -> Gateway {
    let mut builder = Fleet::builder();
    if let Some(store) = &setup.store {
        builder = builder.store(store);
    }
    Gateway::start(
        builder,
        setup.servers.iter().cloned().collect::<Vec<ServerConfig>>(),
    )
}
