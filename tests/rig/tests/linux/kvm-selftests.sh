#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The kernel's own selftests of KVM for x86, on a KVM that can give guests BTS:
# those that pass on this machine without our patches, and those that the
# patches add.  Left out are
#
# - apic_bus_clock_test: it measures time with a timer, which is late now and
#   then on a machine whose two CPUs take turns
# - pmu_counters_test, pmu_event_filter_test: counters do not count here
# - hyperv_*, xen_*, private_mem_*: this kernel is built without them
# - vmx_preemption_timer_test, recalc_apic_map_test: they do not end here
# - sync_regs_test, xapic_ipi_test, xapic_state_test: they take long
# - monitor_mwait_test: fails without our patches, too
# - amx_test, sev_*, svm_*, tsc_scaling_sync, vmx_nested_tsc_scaling_test,
#   xss_msr_test: this CPU has none of it
# - dirty_log_page_splitting_test, nx_huge_pages_test: there are no huge pages
# - smaller_maxphyaddr_emulation_test, vmx_exception_with_invalid_guest_state:
#   they want EPT or unrestricted guests to be off
# - those for all architectures but one: they test memory, timers and
#   scheduling
#
# rig: cpus=2
# rig: memory=1024
# rig: linux=kvm_intel.bts=1
# rig: linux=kvm_intel.bts_trace=1
# rig: program=@linux/selftests/bts_host_test
# rig: program=@linux/selftests/bts_hostile_test
# rig: program=@linux/selftests/bts_msrs_test
# rig: program=@linux/selftests/bts_nested_test
# rig: program=@linux/selftests/bts_test
# rig: program=@linux/selftests/bts_trace_test
# rig: program=@linux/selftests/cpuid_test
# rig: program=@linux/selftests/cr4_cpuid_sync_test
# rig: program=@linux/selftests/debug_regs
# rig: program=@linux/selftests/exit_on_emulation_failure_test
# rig: program=@linux/selftests/fix_hypercall_test
# rig: program=@linux/selftests/get_msr_index_features
# rig: program=@linux/selftests/hwcr_msr_test
# rig: program=@linux/selftests/kvm_clock_test
# rig: program=@linux/selftests/kvm_pv_test
# rig: program=@linux/selftests/max_vcpuid_cap_test
# rig: program=@linux/selftests/nested_exceptions_test
# rig: program=@linux/selftests/platform_info_test
# rig: program=@linux/selftests/pre_fault_memory_test
# rig: program=@linux/selftests/set_boot_cpu_id
# rig: program=@linux/selftests/set_sregs_test
# rig: program=@linux/selftests/smm_test
# rig: program=@linux/selftests/state_test
# rig: program=@linux/selftests/triple_fault_event_test
# rig: program=@linux/selftests/tsc_msrs_test
# rig: program=@linux/selftests/ucna_injection_test
# rig: program=@linux/selftests/userspace_io_test
# rig: program=@linux/selftests/userspace_msr_exit_test
# rig: program=@linux/selftests/vmx_apic_access_test
# rig: program=@linux/selftests/vmx_close_while_nested_test
# rig: program=@linux/selftests/vmx_dirty_log_test
# rig: program=@linux/selftests/vmx_invalid_nested_guest_state
# rig: program=@linux/selftests/vmx_msrs_test
# rig: program=@linux/selftests/vmx_pmu_caps_test
# rig: program=@linux/selftests/vmx_set_nested_state_test
# rig: program=@linux/selftests/vmx_tsc_adjust_test
# rig: program=@linux/selftests/xcr0_cpuid_test

sed -n 's|^# rig[:] program=@linux/selftests/||p' "$0" >/tmp/names
failed=0
while read -r name; do
    # By its path, for it reads itself.
    timeout 60 "/bin/$name" >/tmp/out 2>&1 </dev/null
    status=$?
    echo "$name: $status"
    # 4 is "skipped", which none of them has to be.
    if [ "$status" != 0 ]; then
        tail -n 20 /tmp/out
        failed=1
    fi
done </tmp/names
exit "$failed"
