use bytes::Bytes;
use tokio::sync::Notify;

use super::*;
use crate::transport::Oversized;

/// Carries each frame until it is told that one has arrived.
struct Slow {
    exchanges: Exchanges,
    arrives: Notify,
}

impl FrameCarrier for Slow {
    fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    fn carry(self: &Arc<Self>, admitted: AdmittedFrame) {
        let carrier = self.clone();
        let Purpose::Request { id } = admitted.frame.purpose() else {
            unreachable!("only requests are sent here");
        };
        Exchanges::spawn_request(
            self,
            id,
            admitted,
            async move { carrier.arrives.notified().await },
        );
    }

    fn delete_session(&self) {}
}

/// Hears nothing.
struct IgnoresAll;

impl Inbound for IgnoresAll {
    fn message(&self, _: Bytes) {}

    fn oversized(&self, _: Oversized<'_>) {}

    fn failed(&self, _: u64, _: SendFailure) {}

    fn retired(&self, _: End) {}

    fn ended(&self, _: End) {}
}

fn running() -> Arc<Slow> {
    let slow = Arc::new(Slow {
        exchanges: Exchanges::new(),
        arrives: Notify::new(),
    });
    let inbound: Arc<dyn Inbound> = Arc::new(IgnoresAll);
    assert!(Exchanges::start(&slow, &inbound));
    slow
}

fn request(id: usize) -> Frame {
    Frame::new(Bytes::new(), Purpose::Request { id: id as u64 })
}

#[tokio::test]
async fn a_request_keeps_its_place_until_it_is_done() {
    let slow = running();
    let sender = Sender(slow.clone());
    for id in 0..ORDERED_LIMIT {
        sender.try_send(request(id)).unwrap();
    }
    let full = sender.try_send(request(ORDERED_LIMIT));
    assert!(matches!(full, Err(NotQueued::Full(_))), "{full:?}");
    slow.arrives.notify_one();
    sender.send(request(ORDERED_LIMIT)).await.unwrap();
}
