use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up_and_a_slow_one_is_not() {
    let (near, mut far) = duplex(10);
    let mut patient = Patient::new(near);
    let slow = tokio::spawn(async move {
        let mut piece = [0; 10];
        for _ in 0..5 {
            sleep(PATIENCE / 2).await;
            far.read_exact(&mut piece).await.unwrap();
        }
        far
    });
    patient.write_all(&[0; 50]).await.unwrap();
    let _far = slow.await.unwrap();
    let started = Instant::now();
    let failed = patient.write_all(&[0; 50]).await.unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
    assert!(started.elapsed() >= PATIENCE);
}
