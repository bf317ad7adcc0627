# Asks for one parcel with Beaneater: gem install beaneater
#
#   ruby examples/producer.rb usps 9405903699300184125060 order-1042

require "beaneater"
require "json"

slug, number, id = ARGV
client = Beaneater.new(ENV.fetch("BEANSTALKD", "127.0.0.1:11300"))
body = JSON.generate(type: "requests_flow", payload: { slug: slug, number: number, id: id })
# The same priority from every producer: the smaller number always wins, and defaults differ.
job = client.tubes["requests_flow"].put(body, pri: 65536, ttr: 60)
client.close
puts "put job #{job[:id]}; now: python examples/read_result.py #{slug} #{number} #{id}"
