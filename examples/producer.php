<?php
// Asks for one parcel with Pheanstalk 5 or newer: composer require pda/pheanstalk
//
//   php examples/producer.php usps 9405903699300184125060 order-1042

declare(strict_types=1);

use Pheanstalk\Pheanstalk;
use Pheanstalk\Values\TubeName;

function give_up(string $why): never
{
    fwrite(STDERR, "$why\n");
    exit(1);
}

if (!is_file(__DIR__ . '/vendor/autoload.php')) {
    give_up('Pheanstalk is not installed: composer require pda/pheanstalk in ' . __DIR__);
}
require __DIR__ . '/vendor/autoload.php';

if ($argc !== 4) {
    give_up('usage: producer.php SLUG NUMBER ID');
}
[, $slug, $number, $id] = $argv;
$address = getenv('BEANSTALKD') ?: '127.0.0.1:11300';
if (!preg_match('/^(.+):(\d+)$/', $address, $found)) {
    give_up("BEANSTALKD is '$address': write host:port, like 127.0.0.1:11300");
}

try {
    $client = Pheanstalk::create($found[1], (int) $found[2]);
    $client->useTube(new TubeName('requests_flow'));
    $job = $client->put(
        // JSON_THROW_ON_ERROR: without it, text that is not UTF-8 would be put as an empty job.
        json_encode(
            ['type' => 'requests_flow', 'payload' => ['slug' => $slug, 'number' => $number, 'id' => $id]],
            JSON_THROW_ON_ERROR,
        ),
        // The same priority from every producer: the smaller number always wins, and defaults differ.
        priority: 65536,
        timeToRelease: 60,
    );
} catch (JsonException $error) {
    give_up("SLUG, NUMBER and ID must be UTF-8: {$error->getMessage()}");
} catch (Exception $error) {
    give_up("beanstalkd at $address (BEANSTALKD names another) did not take the job: {$error->getMessage()}");
}
echo "put job {$job->getId()}; now: python examples/read_result.py $slug $number $id\n";
