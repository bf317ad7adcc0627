<?php
// Asks for one parcel with Pheanstalk 5 or newer: composer require pda/pheanstalk
//
//   php examples/producer.php usps 9405903699300184125060 order-1042

declare(strict_types=1);

require __DIR__ . '/vendor/autoload.php';

use Pheanstalk\Pheanstalk;
use Pheanstalk\Values\TubeName;

[$host, $port] = explode(':', getenv('BEANSTALKD') ?: '127.0.0.1:11300');
[, $slug, $number, $id] = $argv;

$client = Pheanstalk::create($host, (int) $port);
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
echo "put job {$job->getId()}; now: python examples/read_result.py $slug $number $id\n";
