"""Object stores: a folder, or S3 through boto3."""
