# shellcheck shell=sh
# Where every sandbox of a user has that user's own id there is nobody to hand over to.
echo 'nothing to hand over: sandboxes of this user run with its own id'
