# ESXi: all optimised paths to Sandstone's units in turn, one command each. Type this on the host
# before it sees a unit for the first time. A unit that is there already keeps its policy until it
# is reclaimed, or until `esxcli storage nmp device set` changes it.
esxcli storage nmp satp rule add --satp=VMW_SATP_ALUA --vendor=SNDSTONE --model=VOLUME \
    --psp=VMW_PSP_RR --psp-option="iops=1" --claim-option=tpgs_on --description="Sandstone"
esxcli storage nmp satp rule list --satp=VMW_SATP_ALUA | grep SNDSTONE
