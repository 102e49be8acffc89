//! A SOCKS5 proxy on loopback that connects every client to one port of this machine, whichever server it names.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_OF_THESE: u8 = 255;

/// A proxy in front of one loopback port. Dropping it closes its listener.
#[derive(Debug)]
pub struct SocksProxy {
    address: SocketAddr,
    asked: Asked,
    accepting: JoinHandle<()>,
}

/// The servers that clients asked for, as `HOST:PORT`.
type Asked = Arc<Mutex<Vec<String>>>;

impl SocksProxy {
    /// Listens on a free loopback port and forwards to `target`. Where a login is given (user and password), no client gets
    /// in without it.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Cancel safety
    /// Safe: a proxy that is not returned does not exist.
    pub async fn start(target: u16, login: Option<(&str, &str)>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let asked = Asked::default();
        let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
        let noted = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, target, login.clone(), Arc::clone(&noted)));
            }
        });
        Ok(Self {
            address,
            asked,
            accepting,
        })
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The servers that clients asked for so far, as `HOST:PORT`, in the words of the clients.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SocksProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One client, until either side closes. What is no SOCKS5 is closed without a word.
async fn serve(
    mut client: TcpStream,
    target: u16,
    login: Option<(String, String)>,
    asked: Asked,
) -> io::Result<()> {
    let [version, methods] = read(&mut client).await?;
    let methods = read_many(&mut client, methods).await?;
    let wanted = if login.is_some() { PASSWORD } else { NO_LOGIN };
    if version != VERSION || !methods.contains(&wanted) {
        return client.write_all(&[VERSION, NONE_OF_THESE]).await;
    }
    client.write_all(&[VERSION, wanted]).await?;
    if let Some((user, password)) = login {
        let [_version, length] = read(&mut client).await?;
        let given_user = read_many(&mut client, length).await?;
        let [length] = read(&mut client).await?;
        let given_password = read_many(&mut client, length).await?;
        let is_right = given_user == user.as_bytes() && given_password == password.as_bytes();
        client.write_all(&[1, u8::from(!is_right)]).await?;
        if !is_right {
            return Ok(());
        }
    }
    let [_version, _connect, _reserved, kind] = read(&mut client).await?;
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(&mut client).await?).to_string(),
        4 => Ipv6Addr::from(read::<16>(&mut client).await?).to_string(),
        _name => {
            let [length] = read(&mut client).await?;
            String::from_utf8_lossy(&read_many(&mut client, length).await?).into_owned()
        }
    };
    let port = u16::from_be_bytes(read(&mut client).await?);
    let name = format!("{host}:{port}");
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    client.write_all(&[VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn read_many(client: &mut TcpStream, length: u8) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(length)];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}
