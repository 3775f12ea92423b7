"""What lets Prometheus and Grafana see a server: PodMonitor, alerts, dashboard, and which Prometheus will take them."""
