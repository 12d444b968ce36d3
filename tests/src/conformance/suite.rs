//! The list of all tests of the suite.

/// Makes a `#[test]` of each test of the suite, for one [`Host`](crate::conformance::Host).
///
/// With `simulated` after the host, tests that need the operating system are left out. With
/// `scanning`, for clients that check servers on demand, the tests in the module `scanning` replace
/// those that need monitors in the background. A test that needs the operating system or monitors
/// in the background has the reason beside its name.
#[macro_export]
macro_rules! conformance_suite {
    ($host:ty) => {
        $crate::conformance_suite! { @everywhere $host }
        $crate::conformance_suite! { @with_monitors $host }
        $crate::conformance_suite! { @on_a_system $host }
        $crate::conformance_suite! { @with_monitors_on_a_system $host }
    };
    ($host:ty, scanning) => {
        $crate::conformance_suite! { @everywhere $host }
        $crate::conformance_suite! { @with_scans $host }
        $crate::conformance_suite! { @on_a_system $host }
    };
    ($host:ty, simulated) => {
        $crate::conformance_suite! { @everywhere $host }
        $crate::conformance_suite! { @with_monitors $host }
    };
    ($host:ty, simulated, scanning) => {
        $crate::conformance_suite! { @everywhere $host }
        $crate::conformance_suite! { @with_scans $host }
    };
    (@everywhere $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_server_is_found_asked_and_left,
            dialing::a_refused_connection_is_told_with_its_address,
            dialing::a_silent_listener_costs_the_connect_timeout,
            dialing::a_name_without_address_is_told,
            dialing::every_address_of_a_name_is_tried,
            traffic::replies_may_come_in_any_pieces,
            traffic::the_largest_reply_arrives_whole,
            traffic::the_largest_request_leaves_whole,
            traffic::an_unasked_reply_is_given_to_nobody,
            traffic::a_connection_closed_while_idle_is_replaced,
            hostile::a_wrong_frame_costs_its_connection_alone,
            hostile::a_cut_reply_costs_its_connection_alone,
            hostile::a_wrong_hello_is_told,
            hostile::a_server_that_refuses_only_pools_is_told,
            hostile::a_flood_of_hellos_disturbs_nobody,
            deadlines::a_silent_server_costs_the_operations_limit,
            deadlines::a_late_reply_is_never_seen,
            deadlines::a_limit_ends_with_its_operation,
            deadlines::the_limit_covers_the_wait_for_a_connection,
            deadlines::the_limit_covers_selection_and_connecting,
            deadlines::limits_of_the_connection_string_hold,
            deadlines::the_limit_of_a_cursor_covers_all_its_batches,
            deadlines::a_waker_that_panics_stops_no_limit,
            deadlines::timers_fire_in_order_and_not_early,
            deadlines::dropped_timers_are_forgotten,
            identity::a_wrong_password_is_told,
            identity::a_server_that_proves_nothing_is_left,
            cancellation::a_find_may_be_dropped_at_any_point,
            cancellation::a_first_command_may_be_dropped_at_any_point,
            cancellation::an_insert_may_be_dropped_at_any_point,
            cancellation::a_cursor_may_be_dropped_at_any_point,
            cancellation::a_request_may_be_dropped_half_written,
            cancellation::waiters_may_leave_the_queue,
            leaving::a_connection_that_rested_is_used_again,
            endings::shutdown_closes_an_idle_pool,
            endings::shutdown_ends_those_who_wait_for_a_server,
            endings::shutdown_ends_those_who_wait_for_a_connection,
            endings::shutdown_lets_exchanges_finish,
            endings::shutdown_works_at_any_moment,
            endings::dropping_the_last_handle_closes_everything,
            endings::a_cursor_keeps_its_client_alive,
            endings::an_operation_keeps_its_client_alive,
            endings::an_open_cursor_is_ended_when_it_is_dropped,
            endings::a_close_that_is_left_ends_its_cursor,
            endings::a_shutdown_that_is_left_ends_its_sessions,
            endings::spawned_tasks_run_on_their_own,
            crowd::thousands_of_tasks_share_few_connections,
            crowd::a_crowd_survives_broken_connections_and_leavers,
            monitoring::a_clients_life_is_told_in_order,
            monitoring::failures_are_told_in_order,
            monitoring::every_start_has_its_end,
            monitoring::a_listener_may_ask_its_client,
            monitoring::a_server_selector_may_ask_its_client,
            uris::a_malformed_connection_string_is_told_by_part,
            uris::a_missing_certificate_file_is_told,
        }
    };
    (@with_monitors $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_server_that_starts_late_is_found:
                "it waits for checks that no operation asks for; scans have a check of their own",
            hostile::a_flood_of_streamed_hellos_leaves_time_for_others:
                "a client that checks servers on demand does not stream",
            leaving::timeouts_against_a_slow_server_churn_no_connections:
                "a client that checks servers on demand does nothing between operations and \
                 drains no replies",
            leaving::callers_that_leave_churn_no_connections:
                "a client that checks servers on demand does nothing between operations and \
                 drains no replies",
            leaving::a_reply_that_never_comes_costs_its_connection_alone:
                "a client that checks servers on demand closes the connection at once",
            leaving::what_happens_to_a_connection_at_rest_costs_no_operation:
                "a client that checks servers on demand pings a connection that was idle for five \
                 seconds",
            removal::a_server_that_is_removed_takes_its_connections_along:
                "the removal shows in a check that no operation asks for",
            endings::shutdown_does_not_wait_for_a_lost_server:
                "the loss shows in a check that no operation asks for",
        }
    };
    (@with_scans $host:ty) => {
        $crate::conformance_suite! { @each $host;
            scanning::nothing_is_sent_between_operations,
            scanning::an_operation_scans_when_it_is_time,
            scanning::one_scan_decides,
            scanning::a_server_that_starts_late_is_found_by_scans,
            scanning::one_server_is_asked_at_a_time,
            scanning::a_silent_member_holds_up_no_operation,
            scanning::a_connection_that_died_in_its_sleep_costs_nothing,
            scanning::an_idle_connection_is_asked_once_and_nobody_is_told,
        }
    };
    (@on_a_system $host:ty) => {
        $crate::conformance_suite! { @each $host;
            dialing::a_unix_socket_is_a_server_too:
                "the virtual network has addresses and ports, and no Unix domain sockets",
            traffic::the_largest_request_leaves_whole_over_a_unix_socket:
                "the virtual network has addresses and ports, and no Unix domain sockets",
            hostile::another_protocol_is_told:
                "the peer is a thread that treats a raw socket of the system",
            hostile::a_reset_at_once_is_told:
                "the peer is a thread that treats a raw socket of the system",
            deployment::documents_come_back_over_tls_to_who_may_see_them:
                "it is served on real sockets; the world's runs have one in virtual time",
            deployment::a_limit_of_new_connections_clears_no_pool:
                "it is served on real sockets; a scene of the monitoring tests has it without TLS",
            deployment::a_failover_costs_no_write:
                "it is served on real sockets; the world's runs have one in virtual time",
            identity::a_good_certificate_is_accepted:
                "the TLS server is a thread that blocks on a socket of the system",
            identity::a_wrong_certificate_is_told:
                "the TLS server is a thread that blocks on a socket of the system",
            identity::one_sided_tls_is_told:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_fatal_alert_during_an_operation_is_a_network_error:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_close_notify_cuts_a_reply_off:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_close_notify_with_a_reply_costs_its_connection_alone:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::new_keys_disturb_nobody:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_server_hears_by_an_alert_why_it_is_left:
                "the TLS server is a thread that blocks on a socket of the system",
            encryption::a_server_hears_what_was_wrong_at_rest:
                "the TLS server is a thread that blocks on a socket of the system",
            leaving::what_happens_at_rest_behind_tls_costs_no_operation:
                "the TLS server is a thread that blocks on a socket of the system",
            leaving::what_is_left_behind_tls_reaches_nobody:
                "the TLS server is a thread that blocks on a socket of the system",
            crowd::ten_thousand_operations_share_a_hundred_connections:
                "the test is about sockets of the system; many operations in virtual time have \
                 tests of their own",
            faults::a_reset_in_any_phase_is_told:
                "a proxy with threads breaks connections of the system",
            faults::a_stall_in_any_phase_costs_its_limit:
                "a proxy with threads holds connections of the system back",
            faults::a_full_backlog_costs_the_connect_timeout:
                "the virtual network has no backlog",
            exhaustion::descriptors_that_run_out_are_told_and_missed_no_longer:
                "file descriptors are those of the operating system",
            endings::any_thread_may_use_and_drop_a_client:
                "a world has one thread; a second one would make its order depend on the system",
        }
    };
    (@with_monitors_on_a_system $host:ty) => {
        $crate::conformance_suite! { @each $host;
            monitoring::a_listener_that_blocks_holds_up_no_operation:
                "a runtime of one thread calls listeners in the thread of the operation",
            faults::a_peer_that_vanishes_is_noticed:
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
