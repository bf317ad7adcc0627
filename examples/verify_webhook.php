<?php
// Takes webhooks and checks their signatures; needs PHP alone.
//
//   WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:8000 examples/verify_webhook.php

declare(strict_types=1);

// A request that is older, or of the future, may be one that somebody recorded and sends again.
const TOLERANCE_SECONDS = 300;

// $body is what arrived, before anything reads it.
function verify(string $secret, array $server, string $body): bool
{
    $id = $server['HTTP_WEBHOOK_ID'] ?? '';
    $sentAt = $server['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!ctype_digit($sentAt) || abs(time() - (int) $sentAt) > TOLERANCE_SECONDS) {
        return false;
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$sentAt.$body", $key, true));
    // Several while a secret is changed. Compared in constant time: no answer comes sooner.
    foreach (explode(' ', $server['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}

$secret = getenv('WEBHOOK_SECRET') ?: '';
if (!preg_match('~^whsec_[A-Za-z0-9+/]+=*$~', $secret)) {
    error_log('WEBHOOK_SECRET is not set: write the whsec_… that was shown when the service was made');
    http_response_code(500);
    exit(1);
}
$body = file_get_contents('php://input');
if (!verify($secret, $_SERVER, $body)) {
    http_response_code(401);
    exit;
}
// The same webhook-id may come twice: do what it asks for once, after this answer.
error_log("{$_SERVER['HTTP_WEBHOOK_ID']} " . json_decode($body)->type);
// Another answer than 2xx, and the webhook comes again.
http_response_code(204);
