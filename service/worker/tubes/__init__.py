"""beanstalkd: jobs in, jobs out, and what a job's body may be."""
