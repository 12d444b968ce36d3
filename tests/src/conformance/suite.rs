//! The list of all tests of the suite.

/// Makes a `#[test]` of each test of the suite, for one [`Host`](crate::conformance::Host).
///
/// With `brief` after the host, only the tests are made that depend most on the runtime: on its
/// sockets, timers, tasks and threads. With `simulated`, tests that need the operating system are
/// left out. With `scanning`, for clients that check servers on demand, the tests in the module
/// `scanning` replace those that need monitors in the background. A test that needs the operating
/// system or monitors in the background has the reason beside its name.
#[macro_export]
macro_rules! conformance_suite {
    ($host:ty) => {
        $crate::conformance_suite! { $host, simulated }
        $crate::conformance_suite! { @on_each_runtime_of_a_system $host }
        $crate::conformance_suite! { @on_a_system $host }
        $crate::conformance_suite! { @with_monitors_on_a_system $host }
    };
    ($host:ty, scanning) => {
        $crate::conformance_suite! { $host, simulated, scanning }
        $crate::conformance_suite! { @on_each_runtime_of_a_system $host }
        $crate::conformance_suite! { @on_a_system $host }
    };
    ($host:ty, brief) => {
        $crate::conformance_suite! { @on_each_runtime $host }
        $crate::conformance_suite! { @on_each_runtime_of_a_system $host }
    };
    ($host:ty, simulated) => {
        $crate::conformance_suite! { @on_each_runtime $host }
        $crate::conformance_suite! { @everywhere $host }
        $crate::conformance_suite! { @with_monitors $host }
    };
    ($host:ty, simulated, scanning) => {
        $crate::conformance_suite! { @on_each_runtime $host }
        $crate::conformance_suite! { @everywhere $host }
        $crate::conformance_suite! { @with_scans $host }
    };
    (@on_each_runtime $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_client_connects_runs_operations_and_closes_all_sockets,
            dialing::a_refused_connection_is_reported_with_its_address,
            dialing::an_unresolvable_host_name_is_reported,
            dialing::every_address_of_a_host_name_is_tried,
            traffic::replies_are_accepted_in_pieces_of_any_size,
            traffic::the_largest_reply_is_received_completely,
            traffic::the_largest_request_is_sent_completely,
            traffic::a_connection_closed_while_idle_is_replaced,
            deadlines::an_operation_without_a_reply_fails_at_its_time_limit,
            deadlines::a_panicking_waker_does_not_affect_other_time_limits,
            deadlines::timers_fire_in_order_and_not_early,
            deadlines::dropped_timers_do_not_affect_other_timers,
            seed_lists::a_seed_list_is_looked_up_over_udp,
            seed_lists::a_truncated_reply_is_read_over_tcp,
            seed_lists::a_host_is_reached_at_its_second_address,
            credentials::a_callback_gives_the_token_of_a_connection,
            credentials::a_callback_can_wait_on_the_runtime,
            cancellation::a_first_command_may_be_dropped_at_any_point,
            cancellation::dropping_a_partly_written_request_closes_its_connection,
            shutdown::shutdown_works_while_the_client_connects,
            shutdown::dropping_the_last_handle_closes_all_sockets,
            shutdown::a_spawned_task_runs_without_being_awaited,
            concurrency::thousands_of_tasks_share_few_connections,
            monitoring::an_event_listener_may_call_its_client,
            monitoring::a_server_selector_may_call_its_client,
        }
    };
    (@on_each_runtime_of_a_system $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_client_connects_over_a_unix_socket:
                "the virtual network has addresses and ports, and no Unix domain sockets",
            traffic::the_largest_request_is_sent_completely_over_a_unix_socket:
                "the virtual network has addresses and ports, and no Unix domain sockets",
            credentials::a_callback_that_blocks_for_ever_costs_an_error:
                "the virtual network has one thread, which the callback would block",
            encryption::a_close_notify_after_a_reply_closes_only_its_connection:
                "the TLS server is a thread that blocks on a socket of the system",
            faults::a_reset_in_any_phase_is_reported:
                "a proxy with threads breaks connections of the system",
            exhaustion::a_lack_of_file_descriptors_fails_only_operations_on_new_connections:
                "file descriptors are those of the operating system",
            shutdown::any_thread_may_use_and_drop_a_client:
                "a world has one thread; a second one would make its order depend on the system",
        }
    };
    (@everywhere $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_server_that_does_not_reply_causes_a_connect_timeout,
            traffic::a_second_reply_to_a_request_reaches_no_operation,
            hostile::an_invalid_reply_closes_only_its_connection,
            hostile::a_truncated_reply_closes_only_its_connection,
            hostile::an_invalid_hello_reply_fails_server_selection,
            hostile::an_operation_fails_if_only_the_monitor_can_connect,
            hostile::a_server_that_sends_many_replies_to_one_hello_stays_unknown,
            deadlines::a_late_reply_reaches_no_other_operation,
            deadlines::the_time_limit_of_a_completed_operation_does_not_end_the_next_one,
            deadlines::the_time_limit_covers_the_wait_for_a_connection,
            deadlines::the_time_limit_covers_server_selection_and_connection_establishment,
            deadlines::time_limits_of_the_connection_string_apply,
            deadlines::the_time_limit_of_a_cursor_covers_all_its_batches,
            identity::a_wrong_password_is_reported_with_the_servers_message,
            seed_lists::a_missing_seed_list_fails_only_operations_that_wait,
            seed_lists::a_silent_name_server_is_passed_over,
            seed_lists::a_lookup_without_an_answer_fails_after_the_connect_timeout,
            seed_lists::the_resolver_of_the_application_is_used,
            seed_lists::a_bad_resolver_of_the_application_fails_only_its_lookups,
            seed_lists::ip_addresses_are_not_looked_up,
            seed_lookups::a_builder_is_resolved_before_its_client_is_built,
            seed_lookups::a_client_that_looks_its_txt_record_up_has_the_warnings_about_it,
            seed_lookups::a_dns_failure_is_the_error_of_the_resolution,
            seed_lookups::a_resolution_ends_at_its_limit_or_with_its_future,
            seed_lookups::addresses_that_are_known_late_are_dialled_too,
            identity::a_server_with_a_wrong_nonce_fails_authentication,
            credentials::a_bad_callback_costs_an_error,
            cancellation::a_find_may_be_dropped_at_any_point,
            cancellation::an_insert_may_be_dropped_at_any_point,
            cancellation::a_cursor_may_be_dropped_at_any_point,
            cancellation::dropped_operations_leave_the_wait_queue,
            late_replies::an_idle_connection_is_reused,
            shutdown::shutdown_closes_an_idle_pool,
            shutdown::shutdown_fails_operations_that_wait_for_a_server,
            shutdown::shutdown_fails_operations_that_wait_for_a_connection,
            shutdown::shutdown_waits_for_running_exchanges,
            shutdown::a_cursor_keeps_its_client_open,
            shutdown::an_operation_keeps_its_client_open,
            shutdown::dropping_an_open_cursor_sends_kill_cursors,
            shutdown::dropping_the_future_of_close_still_ends_the_cursor,
            shutdown::dropping_the_future_of_shutdown_still_ends_sessions,
            shutdown::shutdown_ends_the_sessions_of_open_cursors,
            concurrency::concurrent_operations_get_their_replies_despite_resets_and_drops,
            monitoring::a_client_emits_its_events_in_order,
            monitoring::the_events_of_a_failure_are_emitted_in_order,
            monitoring::every_command_started_event_is_followed_by_succeeded_or_failed,
            uris::a_connection_string_error_names_the_invalid_part,
            uris::a_missing_certificate_file_is_reported,
        }
    };
    (@with_monitors $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_server_that_starts_after_a_failed_check_is_found:
                "it waits for checks that no operation asks for; scans have a check of their own",
            hostile::a_flood_of_streamed_hello_replies_does_not_block_operations:
                "a client that checks servers on demand does not stream",
            late_replies::operations_that_time_out_close_no_connection:
                "a client that checks servers on demand does nothing between operations and \
                 drains no replies",
            late_replies::dropped_operations_close_no_connection:
                "a client that checks servers on demand does nothing between operations and \
                 drains no replies",
            late_replies::the_cursor_of_a_dropped_find_is_closed:
                "a client that checks servers on demand does nothing between operations and \
                 drains no replies",
            late_replies::a_missing_late_reply_does_not_clear_the_pool:
                "a client that checks servers on demand closes the connection at once",
            late_replies::losing_an_idle_connection_fails_no_operation:
                "a client that checks servers on demand pings a connection that was idle for five \
                 seconds",
            removal::removing_a_server_closes_all_its_connections:
                "the removal shows in a check that no operation asks for",
            shutdown::shutdown_does_not_wait_for_an_unavailable_server:
                "the loss shows in a check that no operation asks for",
        }
    };
    (@with_scans $host:ty) => {
        $crate::conformance_suite! { @each $host;
            scanning::no_message_is_sent_between_operations,
            scanning::an_operation_scans_servers_after_the_heartbeat_interval,
            scanning::server_selection_fails_after_one_scan_without_a_server,
            scanning::an_operation_scans_until_a_server_is_available,
            scanning::a_scan_connects_to_one_server_at_a_time,
            scanning::a_member_that_never_replies_delays_no_operation_on_the_primary,
            scanning::an_idle_connection_closed_by_the_server_fails_no_operation,
            scanning::a_preliminary_ping_is_sent_once_and_emits_no_command_events,
        }
    };
    (@on_a_system $host:ty) => {
        $crate::conformance_suite! { @each $host;
            hostile::a_server_of_another_protocol_fails_server_selection:
                "the peer is a thread that treats a raw socket of the system",
            credentials::a_token_is_read_from_a_file:
                "the file is one of the system; tests in virtual time have files of their own",
            credentials::a_token_is_fetched_over_http:
                "the endpoint listens on a real socket; tests in virtual time have their own",
            hostile::an_immediate_reset_fails_server_selection:
                "the peer is a thread that treats a raw socket of the system",
            deployment::an_authenticated_client_reads_over_tls_and_a_wrong_password_fails:
                "it is served on real sockets; the world's runs have one in virtual time",
            deployment::a_connection_rate_limit_of_the_server_does_not_clear_the_pool:
                "it is served on real sockets; a scene of the monitoring tests has it without TLS",
            deployment::each_write_is_stored_once_despite_a_failover:
                "it is served on real sockets; the world's runs have one in virtual time",
            identity::a_valid_certificate_is_accepted:
                "the TLS server is a thread that blocks on a socket of the system",
            identity::an_invalid_certificate_is_reported_unless_its_check_is_disabled:
                "the TLS server is a thread that blocks on a socket of the system",
            identity::tls_on_only_one_side_fails_server_selection:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_fatal_alert_during_an_operation_is_a_network_error:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_close_notify_before_a_complete_reply_fails_the_operation:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::tls_key_updates_do_not_close_connections:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::the_client_sends_an_alert_with_the_reason_of_a_tls_failure:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::an_invalid_record_on_an_idle_connection_causes_an_alert:
                "the TLS server is a thread that blocks on a socket of the system",
            late_replies::losing_an_idle_tls_connection_fails_no_operation:
                "the TLS server is a thread that blocks on a socket of the system",
            late_replies::a_late_reply_over_tls_reaches_no_other_operation:
                "the TLS server is a thread that blocks on a socket of the system",
            concurrency::ten_thousand_operations_share_a_hundred_connections:
                "the test is about sockets of the system; many operations in virtual time have \
                 tests of their own",
            faults::a_stall_in_any_phase_ends_at_its_timeout:
                "a proxy with threads holds connections of the system back",
            faults::a_full_backlog_fails_new_connections_at_the_connect_timeout:
                "the virtual network has no backlog",
        }
    };
    (@with_monitors_on_a_system $host:ty) => {
        $crate::conformance_suite! { @each $host;
            monitoring::a_blocking_event_listener_delays_no_operation:
                "a runtime of one thread calls listeners in the thread of the operation",
            faults::a_check_timeout_interrupts_an_operation_on_an_unreachable_server:
                "a client that checks servers on demand has no background check, only \
                 socketTimeoutMS",
        }
    };
    (@each $host:ty; $($module:ident::$check:ident $(: $reason:literal)?,)*) => {$(
        #[test]
        fn $check() {
            $crate::conformance::run::<$host, _>($crate::conformance::$module::$check::<$host>);
        }
    )*};
}
