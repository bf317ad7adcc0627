# Asks for one parcel with Beaneater: gem install beaneater
#
#   ruby examples/producer.rb usps 9405903699300184125060 order-1042

begin
  require "beaneater"
rescue LoadError
  abort "Beaneater is not installed: gem install beaneater"
end
require "json"

abort "usage: producer.rb SLUG NUMBER ID" unless ARGV.length == 3
slug, number, id = ARGV
address = ENV.fetch("BEANSTALKD", "127.0.0.1:11300")
abort "BEANSTALKD is '#{address}': write host:port, like 127.0.0.1:11300" unless address =~ /\A.+:\d+\z/

begin
  client = Beaneater.new(address)
  body = JSON.generate(type: "requests_flow", payload: { slug: slug, number: number, id: id })
  # The same priority from every producer: the smaller number always wins, and defaults differ.
  job = client.tubes["requests_flow"].put(body, pri: 65536, ttr: 60)
  client.close
rescue JSON::GeneratorError => error
  abort "SLUG, NUMBER and ID must be UTF-8: #{error.message}"
rescue SystemCallError, SocketError, Beaneater::NotConnected, Beaneater::UnexpectedResponse => error
  abort "beanstalkd at #{address} (BEANSTALKD names another) did not take the job: #{error.message}"
end
puts "put job #{job[:id]}; now: python examples/read_result.py #{slug} #{number} #{id}"
